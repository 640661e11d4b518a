/* answer.h: what the XML answers of all object stores have in common: errors, and pages of listings. Answers are
 * treated as hostile, as files are: sizes, depth and counts are bounded; entities other than the five of XML and
 * character references are rejected, and so is a document type.
 *
 * A function that reads one kind of answer returns TSR_OK with its result; 1 with *failure set if the answer is an
 * <Error> instead (which S3 may send even with status 200); TSR_CORRUPT if it is neither, with the byte position in the
 * message; or TSR_BUDGET or TSR_NOMEM. All strings are in the arena and NUL-terminated, without NUL bytes inside.
 * `failure` may not be NULL. */
#ifndef TSR_REMOTE_ANSWER_H
#define TSR_REMOTE_ANSWER_H

#include "base/memory.h"
#include "remote/xml.h"

/* An <Error>. Missing strings are "". */
typedef struct tsr_answer_failure {
  const char *code; /* for example "NoSuchKey"; never empty */
  const char *message, *request_id;
  const char *region; /* where the bucket is, from AuthorizationHeaderMalformed and the like */
  const char *endpoint; /* from PermanentRedirect */
  const char *key; /* of one object in the answer of DeleteObjects */
} tsr_answer_failure;

/* The body of a response whose status is not 2xx. Returns TSR_OK with *failure set. */
int tsr__answer_failure(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_failure *failure,
                        tsr_error *error);

typedef struct tsr_answer_entry {
  const char *key;
  const char *etag; /* as the server wrote it; "" if missing */
  uint64_t size; /* in bytes */
  int64_t modified; /* in milliseconds since 1970; INT64_MIN: not known */
} tsr_answer_entry;

/* A page of a listing. */
typedef struct tsr_answer_listing {
  tsr_answer_entry *entries; /* in the server's order */
  uint64_t entry_count;
  const char **prefixes; /* common prefixes, in the server's order, with the delimiter at the end */
  uint64_t prefix_count;
  const char *next; /* the token of the next page; NULL: this is the last one */
} tsr_answer_listing;

/* azure_response.c: a page of List Blobs of Azure: EnumerationResults. */
int tsr__azure_response_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_listing *listing,
                                tsr_answer_failure *failure, tsr_error *error);

/* ---- For the files that read the answers of one kind of server ----
 *
 * Each kind of answer is a table of the elements that matter; all others are skipped. A repeated element that may occur
 * only once is rejected, and so is a malformed value: a partly understood listing would be a listing with missing
 * files. */

/* A child element that matters: a text, or an element with its own reader. */
typedef struct tsr_answer_field {
  const char *name;
  const char **text; /* initially NULL; set to the element's text */
  int (*read)(tsr_xml *xml, void *into, tsr_error *error); /* used if `text` is NULL; closes the element */
  void *into; /* passed to `read` */
} tsr_answer_field;

/* Reads the children of the innermost open element and closes it. */
int tsr__answer_fields(tsr_xml *xml, const tsr_answer_field *fields, unsigned count, tsr_error *error);

/* Opens an answer, whose root is `root`, reads its fields and closes it. */
int tsr__answer_read(const void *bytes, uint64_t size, tsr_arena *arena, const char *root, tsr_xml *xml,
                     const tsr_answer_field *fields, unsigned count, tsr_answer_failure *failure, tsr_error *error);

/* Reads an <Error> that is open; `into` is a tsr_answer_failure whose code is NULL. */
int tsr__answer_error(tsr_xml *xml, void *into, tsr_error *error);

const char *tsr__answer_text(const char *text); /* "" for NULL */
int64_t tsr__answer_time(const char *text); /* INT64_MIN if it is NULL or no time */

/* A listing that is being read. */
typedef struct tsr_answer_reader {
  tsr_answer_listing listing;
  uint64_t entry_room, prefix_room;
} tsr_answer_reader;

/* Adds an entry or a common prefix. Errors: TSR_CORRUPT for an empty name or a bad size. */
int tsr__answer_entry(tsr_xml *xml, tsr_answer_reader *reader, const char *key, const char *size, const char *etag,
                      const char *modified, tsr_error *error);
int tsr__answer_prefix(tsr_xml *xml, tsr_answer_reader *reader, const char *prefix, tsr_error *error);

#endif
