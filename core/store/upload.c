/* upload.c: uploads staged files. Files of at most one part are sent in batches; each batch takes at most BATCH_ROOM
 * bytes of memory. A larger file is sent in parts, as many at a time as fit into BATCH_ROOM. A stream sends parts of a
 * file that is still being written: its final size is unknown, so the part size doubles every PARTS_OF_A_SIZE parts,
 * and the protocol's limit on the number of parts does not limit the file.
 */
#include "store/upload.h"

#include <string.h>

#include "base/arithmetic.h"

#define BATCH_ROOM  (UINT64_C(64) << 20) /* bytes */
#define BATCH_CALLS 256u /* requests */
#define PARTS_MAX   10000u /* the protocol's limit */

/* ---- Small files ------------------------------------------------------------------------------------------------- */

/* Reads the files of the batch into memory, one after the other, and sends them together. */
static int send_batch(tsr_bucket *client, tsr_memory *memory, const tsr_staged_upload *uploads, uint64_t count,
                      uint64_t bytes, tsr_error *error) {
  tsr_bucket_call *calls;
  uint8_t *room;
  TSR_TRY(TSR_ALLOC_ARRAY(memory, count, &calls, error));
  int rc = TSR_ALLOC_RAW(memory, bytes, &room, error);
  if (rc < 0) return tsr__free(calls), rc;
  uint64_t at = 0;
  for (uint64_t i = 0; i < count && rc >= 0; i++) {
    const uint64_t size = tsr__staged_size(uploads[i].file);
    calls[i] = (tsr_bucket_call){.kind = TSR_BUCKET_PUT,
                                 .key = uploads[i].key,
                                 .put.bytes = room + at,
                                 .put.size = size,
                                 .put.new_only = uploads[i].new_only};
    rc = tsr__staged_read(uploads[i].file, 0, room + at, size, error);
    at += size;
  }
  if (rc >= 0) rc = tsr__bucket_run(client, calls, count, error);
  tsr__free(room);
  tsr__free(calls);
  return rc;
}

/* ---- Large files ------------------------------------------------------------------------------------------------- */

typedef struct parted { /* a file that is sent in parts */
  tsr_bucket *client;
  const tsr_staged_upload *upload;
  uint64_t part_size;
  uint32_t parts;
  tsr_etag *etags; /* of the parts that have been sent */
  const char *id; /* of the upload */
  uint32_t together; /* parts that are sent at one time */
  tsr_bucket_call *calls; /* `together` */
  uint8_t *room; /* for the bytes of these */
} parted;

static int send_parts(parted *p, uint32_t first, uint32_t count, tsr_error *error) {
  const uint64_t size = tsr__staged_size(p->upload->file);
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t offset = (uint64_t)(first + i) * p->part_size, part = TSR_MIN(p->part_size, size - offset);
    uint8_t *bytes = p->room + i * p->part_size;
    TSR_TRY(tsr__staged_read(p->upload->file, offset, bytes, part, error));
    p->calls[i] = (tsr_bucket_call){.kind = TSR_BUCKET_UPLOAD_PART,
                                    .key = p->upload->key,
                                    .upload.id = p->id,
                                    .upload.part = first + i + 1,
                                    .put.bytes = bytes,
                                    .put.size = part};
  }
  TSR_TRY(tsr__bucket_run(p->client, p->calls, count, error));
  for (uint32_t i = 0; i < count; i++) p->etags[first + i] = p->calls[i].result.etag;
  return TSR_OK;
}

static int send_all_parts(parted *p, tsr_error *error) {
  for (uint32_t first = 0; first < p->parts; first += p->together)
    TSR_TRY(send_parts(p, first, TSR_MIN(p->together, p->parts - first), error));
  tsr_bucket_call end = {.kind = TSR_BUCKET_UPLOAD_COMPLETE,
                         .key = p->upload->key,
                         .upload.id = p->id,
                         .upload.part_count = p->parts,
                         .upload.etags = p->etags,
                         .put.new_only = p->upload->new_only};
  return tsr__bucket_run_one(p->client, &end, error);
}

static int send_large(tsr_bucket *client, tsr_memory *memory, const tsr_staged_upload *upload, tsr_error *error) {
  const uint64_t size = tsr__staged_size(upload->file);
  parted p = {.client = client, .upload = upload, .part_size = tsr__bucket_part_size(client)};
  while (size / p.part_size >= PARTS_MAX) p.part_size *= 2;
  p.parts = (uint32_t)((size + p.part_size - 1) / p.part_size);
  p.together = (uint32_t)TSR_MIN(TSR_MAX(BATCH_ROOM / p.part_size, 1), p.parts);
  tsr_bucket_call begin = {.kind = TSR_BUCKET_UPLOAD_CREATE, .key = upload->key};
  tsr_error unseen;
  TSR_TRY(tsr__bucket_run_one(client, &begin, error));
  p.id = begin.result.id;
  int rc = TSR_ALLOC_ARRAY(memory, p.parts, &p.etags, error);
  if (rc >= 0) rc = TSR_ALLOC_ARRAY(memory, p.together, &p.calls, error);
  if (rc >= 0) rc = TSR_ALLOC_RAW(memory, p.together * p.part_size, &p.room, error);
  if (rc >= 0) rc = send_all_parts(&p, error);
  tsr_bucket_call abort = {.kind = TSR_BUCKET_UPLOAD_ABORT, .key = upload->key, .upload.id = p.id};
  if (rc < 0) (void)tsr__bucket_run_one(client, &abort, &unseen); /* if this fails, a vacuum will abort the upload */
  tsr__free(p.room);
  tsr__free(p.calls);
  tsr__free(p.etags);
  return rc;
}

int tsr__bucket_upload(tsr_bucket *client, tsr_memory *memory, const tsr_staged_upload *uploads, uint64_t count,
                       tsr_error *error) {
  const uint64_t part = tsr__bucket_part_size(client);
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

/* ---- Files that are being written ------------------------------------------------------------------------------- */

#define PARTS_OF_A_SIZE 1000u /* parts of a stream after which the part size doubles */

struct tsr_bucket_stream {
  tsr_memory *memory; /* borrowed */
  tsr_bucket *client; /* borrowed */
  char *key; /* owned */
  char *id; /* of the upload, owned */
  tsr_buffer etags; /* tsr_etag of each part that was sent */
  bool ended; /* the object exists */
};

uint64_t tsr__bucket_stream_from(tsr_bucket *client) { return TSR_MAX(BATCH_ROOM, tsr__bucket_part_size(client)); }

static uint32_t stream_parts(const tsr_bucket_stream *stream) {
  return (uint32_t)(stream->etags.size / sizeof(tsr_etag));
}

static uint64_t stream_part_size(const tsr_bucket_stream *stream) {
  return tsr__bucket_part_size(stream->client) << (stream_parts(stream) / PARTS_OF_A_SIZE);
}

static int stream_text(tsr_memory *memory, const char *text, char **copy, tsr_error *error) {
  TSR_TRY(TSR_ALLOC_RAW(memory, strlen(text) + 1, copy, error));
  memcpy(*copy, text, strlen(text) + 1);
  return TSR_OK;
}

int tsr__bucket_stream_open(tsr_bucket *client, tsr_memory *memory, const char *key, tsr_bucket_stream **stream,
                            tsr_error *error) {
  tsr_bucket_call begin = {.kind = TSR_BUCKET_UPLOAD_CREATE, .key = key};
  tsr_bucket_stream *s;
  TSR_TRY(TSR_ALLOC(memory, &s, error));
  *s = (tsr_bucket_stream){.memory = memory, .client = client, .etags = {.memory = memory}};
  int rc = stream_text(memory, key, &s->key, error);
  if (rc >= 0) rc = tsr__bucket_run_one(client, &begin, error);
  if (rc >= 0) rc = stream_text(memory, begin.result.id, &s->id, error);
  if (rc < 0) return tsr__bucket_stream_close(s), rc;
  *stream = s;
  return TSR_OK;
}

/* Sends `size` bytes from memory as parts of at most `part` bytes. */
static int send_bytes(tsr_bucket_stream *s, const uint8_t *bytes, uint64_t size, uint64_t part, tsr_error *error) {
  const uint32_t first = stream_parts(s), count = (uint32_t)((size + part - 1) / part);
  tsr_bucket_call *calls;
  if (first + count > PARTS_MAX) return tsr__fail(error, TSR_TOOBIG, "the file has more than %u parts", PARTS_MAX);
  TSR_TRY(TSR_ALLOC_ARRAY(s->memory, count, &calls, error));
  for (uint32_t i = 0; i < count; i++)
    calls[i] = (tsr_bucket_call){.kind = TSR_BUCKET_UPLOAD_PART,
                                 .key = s->key,
                                 .upload.id = s->id,
                                 .upload.part = first + i + 1,
                                 .put.bytes = bytes + i * part,
                                 .put.size = TSR_MIN(part, size - i * part)};
  int rc = tsr__bucket_run(s->client, calls, count, error);
  for (uint32_t i = 0; rc >= 0 && i < count; i++)
    rc = tsr__buffer_append(&s->etags, &calls[i].result.etag, sizeof calls[i].result.etag, error);
  tsr__free(calls);
  return rc;
}

/* Sends the bytes of the file and removes them from it; an incomplete last part stays in the file unless `last` is
 * set. */
static int stream_move(tsr_bucket_stream *s, tsr_staged *file, bool last, uint64_t *sent, tsr_error *error) {
  const uint64_t part = stream_part_size(s), size = tsr__staged_size(file), rest = last ? 0 : size % part;
  uint8_t *bytes;
  *sent = size - rest;
  if (*sent == 0) return TSR_OK;
  TSR_TRY(TSR_ALLOC_RAW(s->memory, size, &bytes, error));
  int rc = tsr__staged_read(file, 0, bytes, size, error);
  if (rc >= 0) rc = send_bytes(s, bytes, *sent, part, error);
  if (rc >= 0) tsr__staged_clear(file);
  if (rc >= 0) rc = tsr__staged_append(file, bytes + *sent, rest, error);
  tsr__free(bytes);
  return rc;
}

int tsr__bucket_stream_send(tsr_bucket_stream *stream, tsr_staged *file, uint64_t *sent, tsr_error *error) {
  *sent = 0;
  if (tsr__staged_size(file) < TSR_MAX(BATCH_ROOM, stream_part_size(stream))) return TSR_OK;
  return stream_move(stream, file, false, sent, error);
}

int tsr__bucket_stream_end(tsr_bucket_stream *stream, tsr_staged *file, tsr_error *error) {
  uint64_t sent;
  TSR_TRY(stream_move(stream, file, true, &sent, error));
  tsr_bucket_call end = {.kind = TSR_BUCKET_UPLOAD_COMPLETE,
                         .key = stream->key,
                         .upload.id = stream->id,
                         .upload.part_count = stream_parts(stream),
                         .upload.etags = (const tsr_etag *)(const void *)stream->etags.data,
                         .put.new_only = true};
  TSR_TRY(tsr__bucket_run_one(stream->client, &end, error));
  stream->ended = true;
  return TSR_OK;
}

void tsr__bucket_stream_close(tsr_bucket_stream *stream) {
  tsr_error unseen;
  if (!stream) return;
  tsr_bucket_call abort = {.kind = TSR_BUCKET_UPLOAD_ABORT, .key = stream->key, .upload.id = stream->id};
  if (stream->id && !stream->ended)
    (void)tsr__bucket_run_one(stream->client, &abort, &unseen); /* if this fails, a vacuum will abort the upload */
  tsr__buffer_release(&stream->etags);
  tsr__free(stream->key);
  tsr__free(stream->id);
  tsr__free(stream);
}
