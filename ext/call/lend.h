/* lend.h: memory of the host that one SQL call reads or fills directly, without a BLOB. No address passes through SQL:
 * the host gets a random token, which tessera_npy or tessera_write_npy redeems once. Functions may be called on any
 * thread. */
#ifndef TSX_LEND_H
#define TSX_LEND_H

#include "tessera.h"

typedef struct tsx_lent {
  void *memory;
  uint64_t size; /* in bytes */
  char *header; /* the dict of the NPY header that describes the memory; owned, from sqlite3_malloc */
} tsx_lent;

/* tessera_functions.lend and take_back: registers memory and writes its token; returns 1, or 0 if memory is exhausted
 * or too many loans are outstanding. tsx_take_back cancels a loan that was not redeemed. */
int tsx_lend(void *memory, uint64_t size, const char *header, char token[TESSERA_TOKEN_SIZE]);
void tsx_take_back(const char *token);

/* Redeems a token. The caller frees lent->header. Returns false if there is no such token. */
bool tsx_lent_take(const char *token, tsx_lent *lent);

/* Writes 32 random hex digits and NUL. */
void tsx_token_make(char token[TESSERA_TOKEN_SIZE]);

#endif
