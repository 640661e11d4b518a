/* s3_request.h: makes the requests of a call (s3_state.h). */
#ifndef TSR_S3_REQUEST_H
#define TSR_S3_REQUEST_H

#include "remote/s3_state.h"

/* Makes and signs the present request. Errors: of the keys; TSR_TOOBIG. */
int tsr__s3_request_make(tsr_s3_state *state, tsr_error *error);

#endif
