/* xml.h: a bounded reader for the subset of XML that object stores answer with: elements, text, the five entities,
 * character references, CDATA, comments and processing instructions. Attributes are skipped; namespace prefixes are
 * dropped. Anything else is rejected, above all a document type with its entities. It is a pull parser: the caller
 * iterates over the children of the open element, and nothing recurses. */
#ifndef TSR_REMOTE_XML_H
#define TSR_REMOTE_XML_H

#include "base/memory.h"

#define TSR_XML_DEPTH_MAX 16u
#define TSR_XML_TEXT_MAX  8192u /* bytes of one text, decoded: keys have at most 1,024, tokens may be longer */
#define TSR_XML_NAME_MAX  256u /* bytes of an element's name, with its prefix */

typedef struct tsr_xml_name {
  const char *text; /* borrowed from the input; not terminated */
  uint64_t size;
} tsr_xml_name;

typedef struct tsr_xml {
  const char *start, *at, *end; /* the input, borrowed */
  tsr_arena *arena; /* of the texts; borrowed */
  uint32_t depth; /* open elements */
  bool empty; /* the innermost one was "<name/>": it has no content and no end tag */
  tsr_xml_name names[TSR_XML_DEPTH_MAX]; /* of the open elements, with prefixes */
} tsr_xml;

#endif
