/* listing_prepared.h: the prepared commits of a listing: a transaction of the host has written a marker for each, and the
 * host says whether they count (pending.h). */
#ifndef TSR_LISTING_PREPARED_H
#define TSR_LISTING_PREPARED_H

#include "array/listing_renewal.h"

/* Adds a marker. Its commit counts if it is not published and the host says so. Returns 1; 0 if the marker is missing
 * or incomplete. `entries`: the directory in which the commit will appear. If the commit was published after these were
 * listed, they lack it, and the array must be listed again (TSR_ABORT). NULL: the caller looks for the commit
 * afterwards. */
int tsr__listing_add_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries);

/* Does the same for a marker that a directory's listing shows. If it is missing by now, its commit was published
 * meanwhile: TSR_ABORT. */
int tsr__listing_add_listed_marker(tsr_renewal *r, const char *marker, const tsr_listing *entries);

/* Fails with TSR_ABORT: the commit of the marker was published while the array was listed. */
int tsr__listing_fail_outdated(tsr_renewal *r, const char *marker);

/* Decides about the prepared commits that count but whose files are missing. Call it when everything is listed. */
int tsr__listing_check_gone(tsr_renewal *r);

/* Returns true if the host has committed a prepared commit that did not count when the array was listed. */
bool tsr__listing_newly_committed(const tsr_array *array);

#endif
