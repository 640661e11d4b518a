/* s3_get.h: GET in one request or several: the ranges to ask for, and where the bytes go. */
#ifndef TSR_S3_GET_H
#define TSR_S3_GET_H

#include "remote/s3_state.h"

/* Writes the Range that the next request has, or "". `end` is behind the most bytes that the answer may have. */
void tsr__s3_get_range(const tsr_s3_state *state, char range[64]);

/* Lets the body go to its place. Errors: TSR_TOOBIG if the place has no room for what is requested. */
int tsr__s3_get_prepare(tsr_s3_state *state, tsr_error *error);

/* Takes an answer with status 200 or 206, also one that was cut. */
tsr_s3_verdict tsr__s3_get_take(tsr_s3_state *state);

/* Gives the caller's buffer back, with `have` bytes of the object in it. */
void tsr__s3_get_return(tsr_s3_state *state);

/* Begins anew. */
void tsr__s3_get_restart(tsr_s3_state *state);

#endif
