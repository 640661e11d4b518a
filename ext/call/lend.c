/* lend.c: lends the host's memory to SQL calls. A global list, guarded by a mutex, holds the loans that no call has
 * redeemed yet; a loan leaves the list when its token is redeemed or taken back. */
#include "call/lend.h"

#include <pthread.h>
#include <string.h>

#include "connection/sqlite_api.h"
#include "tessera_host.h"

#define LOANS_MAX 256

typedef struct loan {
  struct loan *next;
  tsx_lent lent;
  char token[TESSERA_TOKEN_SIZE];
} loan;

static pthread_mutex_t loan_mutex = PTHREAD_MUTEX_INITIALIZER;
static loan *loans;
static unsigned loan_count;

void tsx_token_make(char token[TESSERA_TOKEN_SIZE]) {
  uint8_t random[(TESSERA_TOKEN_SIZE - 1) / 2];
  sqlite3_randomness(sizeof random, random);
  tsr_hex_write(random, sizeof random, token);
}

int tsx_lend(void *memory, uint64_t size, const char *header, char token[TESSERA_TOKEN_SIZE]) {
  loan *made = header ? sqlite3_malloc64(sizeof *made) : NULL;
  if (!made) return 0;
  *made = (loan){.lent = {.memory = memory, .size = size, .header = sqlite3_mprintf("%s", header)}};
  tsx_token_make(made->token);
  memcpy(token, made->token, sizeof made->token);
  pthread_mutex_lock(&loan_mutex);
  const bool room = made->lent.header && loan_count < LOANS_MAX;
  if (room) {
    made->next = loans;
    loans = made;
    loan_count++;
  }
  pthread_mutex_unlock(&loan_mutex);
  if (!room) {
    sqlite3_free(made->lent.header);
    sqlite3_free(made);
  }
  return room;
}

bool tsx_lent_take(const char *token, tsx_lent *lent) {
  loan *found = NULL;
  pthread_mutex_lock(&loan_mutex);
  for (loan **at = &loans; token && *at && !found;) {
    if (strcmp((*at)->token, token) != 0) {
      at = &(*at)->next;
      continue;
    }
    found = *at;
    *at = found->next;
    loan_count--;
  }
  pthread_mutex_unlock(&loan_mutex);
  if (found) *lent = found->lent;
  sqlite3_free(found);
  return found != NULL;
}

void tsx_take_back(const char *token) {
  tsx_lent lent;
  if (tsx_lent_take(token, &lent)) sqlite3_free(lent.header);
}
