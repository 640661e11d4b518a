/* filter_names.c: the names of filters and orders in SQL. */
#include "text/filter_names.h"

#include <stddef.h>

static const char *const filter_names[] = {
    [TSR_FILTER_GZIP] = "gzip",
    [TSR_FILTER_ZSTD] = "zstd",
    [TSR_FILTER_LZ4] = "lz4",
    [TSR_FILTER_RLE] = "rle",
    [TSR_FILTER_BZIP2] = "bzip2",
    [TSR_FILTER_DOUBLE_DELTA] = "double_delta",
    [TSR_FILTER_BIT_WIDTH_REDUCTION] = "bit_width_reduction",
    [TSR_FILTER_BITSHUFFLE] = "bitshuffle",
    [TSR_FILTER_BYTESHUFFLE] = "byteshuffle",
    [TSR_FILTER_POSITIVE_DELTA] = "positive_delta",
    [TSR_FILTER_AES_256_GCM] = "aes_256_gcm",
    [TSR_FILTER_MD5] = "md5",
    [TSR_FILTER_SHA256] = "sha256",
    [TSR_FILTER_DICTIONARY] = "dictionary",
    [TSR_FILTER_SCALE_FLOAT] = "scale_float",
    [TSR_FILTER_XOR] = "xor",
    [TSR_FILTER_WEBP] = "webp",
    [TSR_FILTER_DELTA] = "delta",
};

const char *tsx_filter_name(tsr_filter_type type) {
  return (unsigned)type < sizeof filter_names / sizeof *filter_names ? filter_names[type] : NULL;
}

const char *tsx_order_name(tsr_order order) {
  switch (order) {
  case TSR_ORDER_ROW: return "row";
  case TSR_ORDER_COL: return "col";
  case TSR_ORDER_GLOBAL: return "global";
  case TSR_ORDER_HILBERT: return "hilbert";
  default: return "unordered";
  }
}
