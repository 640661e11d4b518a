/* bucket.h: the object store of a world, s3://sim. */
#ifndef SIMULATE_BUCKET_H
#define SIMULATE_BUCKET_H

#include <stdbool.h>

#define BUCKET "s3://sim"

bool bucket_has(const char *suffix); /* true if the key of any object ends so */
bool bucket_is_busy(void); /* true if requests are under way for which nobody waits */
void bucket_end(void); /* adds all objects to the trace, and forgets them and all requests under way */

#endif
