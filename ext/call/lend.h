/* lend.h: memory of the host that one call of SQL reads or fills, without a BLOB in between. No address passes through
 * SQL: the host gets a token, which tessera_npy or tessera_write_npy takes, once. */
#ifndef TSX_LEND_H
#define TSX_LEND_H

#include "tessera.h"

typedef struct tsx_lent {
  void *memory;
  uint64_t size; /* in bytes */
  char *header; /* the dict of an NPY file's header; owned, of sqlite3_malloc */
} tsx_lent;

/* tessera_functions.lend and take_back */
int tsx_lend(void *memory, uint64_t size, const char *header, char token[TESSERA_TOKEN_SIZE]);
void tsx_take_back(const char *token);

/* Takes the memory of a token. The caller frees lent->header. Returns false if there is no such token. */
bool tsx_lent_take(const char *token, tsx_lent *lent);

/* Writes 32 random hex digits and NUL. */
void tsx_token_make(char token[TESSERA_TOKEN_SIZE]);

#endif
