/* s3_upload.c: uploads staged files. Files of at most one part are sent in batches; each batch takes at most BATCH_ROOM
 * bytes of memory. A larger file is sent in parts, as many at a time as BATCH_ROOM holds.
 */
#include "store/s3_upload.h"

#include <string.h>

#include "base/arithmetic.h"

#define BATCH_ROOM  (UINT64_C(64) << 20) /* bytes */
#define BATCH_CALLS 256u /* requests */
#define PARTS_MAX   10000u /* the protocol's limit */

/* ---- Small files ------------------------------------------------------------------------------------------------- */

/* Reads files of the batch one behind the other into memory, and sends them together. */
static int send_batch(tsr_s3 *client, tsr_memory *memory, const tsr_staged_upload *uploads, uint64_t count,
                      uint64_t bytes, tsr_error *error) {
  tsr_s3_call *calls;
  uint8_t *room;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, count, &calls, error));
  int rc = TSR_ALLOC_RAW(memory, bytes, &room, error);
  if (rc < 0) return tsr__free(calls), rc;
  uint64_t at = 0;
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    const uint64_t size = tsr__staged_size(uploads[i].file);
    calls[i] = (tsr_s3_call){
        .kind = TSR_S3_PUT, .key = uploads[i].key, .bytes = room + at, .size = size, .new_only = uploads[i].new_only};
    rc = tsr__staged_read(uploads[i].file, 0, room + at, size, error);
    at += size;
  }
  if (rc >= 0) rc = tsr__s3_run(client, calls, count, error);
  tsr__free(room);
  tsr__free(calls);
  return rc;
}

/* ---- Large files ------------------------------------------------------------------------------------------------- */

typedef struct parted { /* a file that is sent in parts */
  tsr_s3 *client;
  const tsr_staged_upload *upload;
  uint64_t part_size;
  uint32_t parts;
  tsr_etag *etags; /* of the parts that have been sent */
  const char *id; /* of the upload */
  uint32_t together; /* parts that are sent at one time */
  tsr_s3_call *calls; /* `together` */
  uint8_t *room; /* for the bytes of these */
} parted;

static int send_parts(parted *p, uint32_t first, uint32_t count, tsr_error *error) {
  const uint64_t size = tsr__staged_size(p->upload->file);
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t offset = (uint64_t)(first + i) * p->part_size, part = TSR_MIN(p->part_size, size - offset);
    uint8_t *bytes = p->room + i * p->part_size;
    TSR_TRY(tsr__staged_read(p->upload->file, offset, bytes, part, error));
    p->calls[i] = (tsr_s3_call){.kind = TSR_S3_UPLOAD_PART,
                                .key = p->upload->key,
                                .upload_id = p->id,
                                .part = first + i + 1,
                                .bytes = bytes,
                                .size = part};
  }
  TSR_TRY(tsr__s3_run(p->client, p->calls, count, error));
  for (uint32_t i = 0; i < count; i++) p->etags[first + i] = p->calls[i].etag;
  return TSR_OK;
}

static int send_all_parts(parted *p, tsr_error *error) {
  for (uint32_t first = 0; first < p->parts; first += p->together)
    TSR_TRY(send_parts(p, first, TSR_MIN(p->together, p->parts - first), error));
  tsr_s3_call end = {.kind = TSR_S3_UPLOAD_COMPLETE,
                     .key = p->upload->key,
                     .upload_id = p->id,
                     .part_count = p->parts,
                     .etags = p->etags,
                     .new_only = p->upload->new_only};
  return tsr__s3_one(p->client, &end, error);
}

static int send_large(tsr_s3 *client, tsr_memory *memory, const tsr_staged_upload *upload, tsr_error *error) {
  const uint64_t size = tsr__staged_size(upload->file);
  parted p = {.client = client, .upload = upload, .part_size = tsr__s3_part_size(client)};
  while (size / p.part_size >= PARTS_MAX) p.part_size *= 2;
  p.parts = (uint32_t)((size + p.part_size - 1) / p.part_size);
  p.together = (uint32_t)TSR_MIN(TSR_MAX(BATCH_ROOM / p.part_size, 1), p.parts);
  tsr_s3_call begin = {.kind = TSR_S3_UPLOAD_CREATE, .key = upload->key};
  tsr_error unseen;
  TSR_TRY(tsr__s3_one(client, &begin, error));
  p.id = begin.id;
  int rc = TSR_ALLOC_ARRAY(memory, p.parts, &p.etags, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(memory, p.together, &p.calls, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(memory, p.together * p.part_size, &p.room, error);
  if (rc >= 0) rc = send_all_parts(&p, error);
  tsr_s3_call abort = {.kind = TSR_S3_UPLOAD_ABORT, .key = upload->key, .upload_id = p.id};
  if (rc < 0) (void)tsr__s3_one(client, &abort, &unseen); /* a vacuum aborts what is left */
  tsr__free(p.room);
  tsr__free(p.calls);
  tsr__free(p.etags);
  return rc;
}

int tsr__s3_upload(tsr_s3 *client, tsr_memory *memory, const tsr_staged_upload *uploads, uint64_t count,
                   tsr_error *error) {
  const uint64_t part = tsr__s3_part_size(client);
  for (uint64_t i = 0; i < count;) {
    uint64_t bytes = 0, n = 0;
    while (i + n < count && n < BATCH_CALLS) {
      const uint64_t size = tsr__staged_size(uploads[i + n].file);
      if (size > part || (n > 0 && bytes + size > BATCH_ROOM)) break;
      bytes += size;
      n++;
    }
    TSR_TRY(n > 0 ? send_batch(client, memory, uploads + i, n, bytes, error)
                  : send_large(client, memory, uploads + i, error));
    i += n > 0 ? n : 1;
  }
  return TSR_OK;
}
