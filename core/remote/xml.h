/* xml.h: a bounded reader of XML, as much of it as answers of object stores have: elements, text, the five entities,
 * character references, CDATA, comments and processing instructions. Attributes are skipped; prefixes of namespaces are
 * dropped. Anything else, first of all a document type with its entities, is refused. The reader pulls: the caller goes
 * from child to child of the element that is open, and never recurses. */
#ifndef TSR_S3_XML_H
#define TSR_S3_XML_H

#include "base/memory.h"

#define TSR_S3_XML_DEPTH_MAX 16u
#define TSR_S3_XML_TEXT_MAX  8192u /* bytes of one text, decoded: keys have at most 1,024, tokens may be longer */
#define TSR_S3_XML_NAME_MAX  256u /* bytes of a name of an element, with its prefix */

typedef struct tsr_s3_xml_name {
  const char *text; /* borrowed from the input; not terminated */
  uint64_t size;
} tsr_s3_xml_name;

typedef struct tsr_s3_xml {
  const char *start, *at, *end; /* the input, borrowed */
  tsr_arena *arena; /* of the texts; borrowed */
  uint32_t depth; /* elements that are open */
  bool empty; /* the innermost one was "<name/>": it has no content, and no end tag */
  tsr_s3_xml_name names[TSR_S3_XML_DEPTH_MAX]; /* of the open elements, with prefixes */
} tsr_s3_xml;

#endif
