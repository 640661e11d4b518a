/* filter_parts.c: the layout of filter_parts.h, and the loop over its parts. The sizes of all parts add up to the size
 * of the data.
 */
#include "filter/filter_parts.h"

#include "base/arithmetic.h"

int tsr__parts_read(tsr_input *metadata, uint64_t data_size, const uint8_t **sizes, uint32_t *count, tsr_error *error) {
  uint32_t parts = tsr__input_u32(metadata);
  const uint8_t *list = tsr__input_take(metadata, 4 * (uint64_t)parts);
  if (!list)
    return tsr__fail(error, TSR_CORRUPT, "%u data parts are named in %llu bytes of metadata", parts,
                     (unsigned long long)metadata->size);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < parts; i++) sum += tsr__load32(list + 4 * (uint64_t)i);
  if (sum != data_size)
    return tsr__fail(error, TSR_CORRUPT, "%u data parts of %llu bytes in all: %llu bytes are there", parts,
                     (unsigned long long)sum, (unsigned long long)data_size);
  *sizes = list;
  *count = parts;
  return TSR_OK;
}

int tsr__parts_size(const tsr_chunk *in, uint64_t *size, tsr_error *error) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < in->data_count; i++) sum = tsr__add_sat(sum, in->data[i].size);
  if (sum > UINT32_MAX)
    return tsr__fail(error, TSR_TOOBIG, "%llu bytes of data: the format allows 4,294,967,295 in a chunk",
                     (unsigned long long)sum);
  *size = sum;
  return TSR_OK;
}

int tsr__parts_decode(const tsr_filter_context *context, tsr_part_transform transform, tsr_input *metadata,
                      tsr_input data, tsr_part *data_out, tsr_error *error) {
  uint64_t size = tsr__input_left(&data);
  unsigned width = (unsigned)tsr_datatype_size(context->datatype);
  const uint8_t *sizes = NULL;
  uint32_t count = 0;
  uint8_t *out;
  TSR_TRY(tsr__parts_read(metadata, size, &sizes, &count, error));
  TSR_TRY(tsr__filter_room(context, size, &out, error));
  *data_out = (tsr_part){out, size};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t part = tsr__load32(sizes + 4 * (uint64_t)i);
    int rc = transform(width, tsr__input_take(&data, part), part, out, error);
    if (rc < 0) return tsr__wrap(error, "part %u of %u", i, count);
    out += part;
  }
  return TSR_OK;
}

int tsr__parts_encode(const tsr_filter_context *context, tsr_part_transform transform, const tsr_chunk *in,
                      tsr_chunk *out, tsr_error *error) {
  uint64_t size = 0;
  unsigned width = (unsigned)tsr_datatype_size(context->datatype);
  tsr_chunk made = {0};
  TSR_TRY(tsr__parts_size(in, &size, error));
  TSR_TRY(tsr__filter_prepend(context, in, 4 + 4 * (uint64_t)in->data_count, &made, error));
  TSR_TRY(tsr__filter_part(context, size, &made.data, &made.data_count, error));
  uint8_t *list = made.metadata->data, *to = made.data->data;
  tsr__store32(list, in->data_count);
  for (uint32_t i = 0; i < in->data_count; i++) {
    tsr__store32(list += 4, (uint32_t)in->data[i].size);
    int rc = transform(width, in->data[i].data, in->data[i].size, to, error);
    if (rc < 0) return tsr__wrap(error, "part %u of %u", i, in->data_count);
    to += in->data[i].size;
  }
  *out = made;
  return TSR_OK;
}
