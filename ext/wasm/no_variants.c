/* no_variants.c: stands for the tables of TileDB-VCF datasets, which a browser's module does not have: such datasets
 * are large groups in directories or buckets, and a page has neither. */
#include "front/vcf.h"

int tsx_register_vcf(tsx_connection *connection) {
  (void)connection;
  return SQLITE_OK;
}
