/* xml.h: a bounded reader for the subset of XML that object stores answer with: elements, text, the five entities,
 * character references, CDATA, comments and processing instructions. Attributes are skipped, but for Encoded="true";
 * namespace prefixes are dropped. Anything else is rejected, above all a document type with its entities. It is a pull
 * parser: the caller iterates over the children of the open element, and nothing recurses. */
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
  bool encoded; /* the element that was opened last has the attribute Encoded="true" */
  tsr_xml_name names[TSR_XML_DEPTH_MAX]; /* of the open elements, with prefixes */
} tsr_xml;

/* Starts reading and opens the root element. *name: its name without a prefix. All functions fail with TSR_CORRUPT for
 * what is not XML of this kind, with the position in the message. */
int tsr__xml_open(tsr_xml *xml, const void *bytes, uint64_t size, tsr_arena *arena, tsr_xml_name *name,
                  tsr_error *error);

/* Opens the next child of the innermost open element, skipping text before it, and returns 1. If there is none, closes
 * the innermost element and returns 0. */
int tsr__xml_child(tsr_xml *xml, tsr_xml_name *name, tsr_error *error);

/* Reads the text of the innermost open element, which must have no children, and closes it. *text: decoded, in the
 * arena, NUL-terminated, without NUL bytes inside. Errors: also TSR_BUDGET, TSR_NOMEM. */
int tsr__xml_text(tsr_xml *xml, const char **text, tsr_error *error);

/* Skips the rest of the innermost open element and closes it. */
int tsr__xml_skip(tsr_xml *xml, tsr_error *error);

/* Checks that only space, comments and processing instructions follow the root element, which is closed. */
int tsr__xml_close(tsr_xml *xml, tsr_error *error);

bool tsr__xml_is(tsr_xml_name name, const char *wanted);

/* Fails with TSR_CORRUPT; for callers that find a value invalid. */
int tsr__xml_fail(const tsr_xml *xml, const char *what, tsr_error *error);

#endif
