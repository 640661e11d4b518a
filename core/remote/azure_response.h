/* azure_response.h: the XML answers of Azure Blob Storage that are not those of all object stores. */
#ifndef TSR_REMOTE_AZURE_RESPONSE_H
#define TSR_REMOTE_AZURE_RESPONSE_H

#include "remote/answer.h"

/* A page of List Blobs: EnumerationResults. Returns as answer.h says. */
int tsr__azure_response_listing(const void *bytes, uint64_t size, tsr_arena *arena, tsr_answer_listing *listing,
                                tsr_answer_failure *failure, tsr_error *error);

#endif
