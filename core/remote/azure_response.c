/* azure_response.c: reads listings of Azure Blob Storage:
 *
 *   <EnumerationResults><Blobs>
 *     <Blob><Name>a</Name><Properties><Last-Modified/><Etag/><Content-Length/></Properties></Blob>
 *     <BlobPrefix><Name>b/</Name></BlobPrefix>
 *   </Blobs><NextMarker/></EnumerationResults>
 *
 * An account with a hierarchical namespace also lists its directories as blobs, of the ResourceType "directory". They
 * are no objects, and are left out.
 */
#include "remote/answer.h"

#include <string.h>

#include "tessera_host.h"

typedef struct azure_blob {
  const char *name, *size, *etag, *modified, *type;
} azure_blob;

/* A name that XML cannot represent is percent-encoded, and its element says Encoded="true". */
static int read_name(tsr_xml *xml, void *into, tsr_error *error) {
  const char **name = into;
  const bool encoded = xml->encoded;
  const char *text;
  if (*name) return tsr__xml_fail(xml, "duplicate element", error);
  TSR_TRY(tsr__xml_text(xml, &text, error));
  *name = text;
  if (!encoded || !*text) return TSR_OK; /* the text of an empty element is not in the arena */
  char *to = (char *)text; /* never longer than before */
  for (const char *from = text; *from; from++) {
    const bool escape = *from == '%';
    const int high = escape ? tsr_hex_digit(from[1]) : -1, low = high < 0 ? -1 : tsr_hex_digit(from[2]);
    if (escape && (low < 0 || high + low == 0)) return tsr__xml_fail(xml, "a name is not encoded", error);
    *to++ = escape ? (char)(high << 4 | low) : *from;
    if (escape) from += 2;
  }
  *to = 0;
  return TSR_OK;
}

static int read_properties(tsr_xml *xml, void *into, tsr_error *error) {
  azure_blob *blob = into;
  const tsr_answer_field fields[] = {{"Content-Length", &blob->size, NULL, NULL},
                                     {"Etag", &blob->etag, NULL, NULL},
                                     {"Last-Modified", &blob->modified, NULL, NULL},
                                     {"ResourceType", &blob->type, NULL, NULL}};
  return tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error);
}

static int read_blob(tsr_xml *xml, void *into, tsr_error *error) {
  azure_blob blob = {0};
  const tsr_answer_field fields[] = {{"Name", NULL, read_name, &blob.name},
                                     {"Properties", NULL, read_properties, &blob}};
  TSR_TRY(tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error));
  if (blob.type && strcmp(blob.type, "directory") == 0) return TSR_OK;
  return tsr__answer_entry(xml, into, blob.name, blob.size, blob.etag, blob.modified, error);
}

static int read_prefix(tsr_xml *xml, void *into, tsr_error *error) {
  const char *name = NULL;
  const tsr_answer_field fields[] = {{"Name", NULL, read_name, &name}};
  TSR_TRY(tsr__answer_fields(xml, fields, 1, error));
  return tsr__answer_prefix(xml, into, name, error);
}

static int read_blobs(tsr_xml *xml, void *into, tsr_error *error) {
  const tsr_answer_field fields[] = {{"Blob", NULL, read_blob, into}, {"BlobPrefix", NULL, read_prefix, into}};
  return tsr__answer_fields(xml, fields, sizeof fields / sizeof *fields, error);
}

int tsr__azure_response_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_listing *listing,
                                tsr_answer_failure *failure, tsr_error *error) {
  tsr_answer_reader reader = {0};
  const char *next = NULL;
  const tsr_answer_field fields[] = {{"Blobs", NULL, read_blobs, &reader}, {"NextMarker", &next, NULL, NULL}};
  tsr_xml xml;
  const int rc = tsr__answer_read(bytes, size, arena, "EnumerationResults", &xml, fields, 2, failure, error);
  if (rc != 0) return rc;
  reader.listing.next = next && *next ? next : NULL;
  *listing = reader.listing;
  return TSR_OK;
}
