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

/* Begins to read and opens the root element; *name: its name without a prefix. All functions fail with TSR_CORRUPT for
 * what is no XML of this kind, with the position in the message. */
int tsr__s3_xml_open(tsr_s3_xml *xml, const void *bytes, uint64_t size, tsr_arena *arena, tsr_s3_xml_name *name,
                     tsr_error *error);

/* Opens the next child of the innermost open element, skips text before it, and returns 1. Returns 0 if there is none:
 * the innermost element is closed then. */
int tsr__s3_xml_child(tsr_s3_xml *xml, tsr_s3_xml_name *name, tsr_error *error);

/* Reads the text of the innermost open element, which has no children, and closes it. *text: decoded, in the arena,
 * with a NUL byte behind it and none in it. Errors: also TSR_BUDGET, TSR_NOMEM. */
int tsr__s3_xml_text(tsr_s3_xml *xml, const char **text, tsr_error *error);

/* Skips the rest of the innermost open element and closes it. */
int tsr__s3_xml_skip(tsr_s3_xml *xml, tsr_error *error);

/* Checks that nothing but space, comments and instructions follows the root element, which is closed. */
int tsr__s3_xml_close(tsr_s3_xml *xml, tsr_error *error);

bool tsr__s3_xml_is(tsr_s3_xml_name name, const char *wanted);

/* Fails with TSR_CORRUPT, for callers that find a value wrong. */
int tsr__s3_xml_fail(const tsr_s3_xml *xml, const char *what, tsr_error *error);

#endif
