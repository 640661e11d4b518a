/* bucket.h: the object store of a world, s3://sim. */
#ifndef SIMULATE_BUCKET_H
#define SIMULATE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#define BUCKET "s3://sim"

bool bucket_has(const char *suffix); /* true if the key of any object ends so */
uint64_t bucket_digest(const char *prefix); /* a hash of the objects whose keys begin so */
bool bucket_is_busy(void); /* true if requests are under way for which nobody waits */
void bucket_end(void); /* adds all objects to the trace, and forgets them and all requests under way */

#endif
