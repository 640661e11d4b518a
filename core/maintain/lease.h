/* lease.h: the files of advisory leases. tsr_lease takes and gives back a lease. */
#ifndef TSR_LEASE_H
#define TSR_LEASE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if a file in the root of an array or a group has the name of a lease, and sets its generation, which is
 * at least 1. */
bool tsr__lease_parse(const char *name, uint64_t *generation);

#endif
