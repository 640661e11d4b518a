/* s3_take.h: takes the answers to the requests of a call (s3_state.h). */
#ifndef TSR_S3_TAKE_H
#define TSR_S3_TAKE_H

#include "remote/s3_state.h"

/* Takes the answer of a finished request. Sets call->error unless the verdict is DONE or NEXT. */
tsr_s3_verdict tsr__s3_take(tsr_s3_state *state);

#endif
