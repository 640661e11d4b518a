/* stream_link.c: what a connection shares with the streams that it has made. */
#include "functions/stream_link.h"

#include <string.h>
#include <time.h>

#define LINK_WAIT_NS 50000 /* between two tries to take the connection's mutex */

tsx_stream_link *tsx_stream_link_make(tsx_connection *connection) {
  tsx_stream_link *link = sqlite3_malloc64(sizeof *link);
  if (!link) return NULL;
  memset(link, 0, sizeof *link);
  atomic_init(&link->references, 1);
  link->connection = connection;
  if (pthread_mutex_init(&link->lock, NULL) == 0) return link;
  sqlite3_free(link);
  return NULL;
}

void tsx_stream_link_drop(tsx_stream_link *link) {
  if (atomic_fetch_sub(&link->references, 1) > 1) return;
  pthread_mutex_destroy(&link->lock);
  sqlite3_free(link);
}

int tsx_stream_link_enter(tsx_stream_link *link, bool wait) {
  while (true) {
    if (wait) pthread_mutex_lock(&link->lock);
    else if (pthread_mutex_trylock(&link->lock) != 0) return -1;
    if (!link->connection) return 0;
    if (sqlite3_mutex_try(sqlite3_db_mutex(link->connection->db)) == SQLITE_OK) return 1;
    pthread_mutex_unlock(&link->lock);
    if (!wait) return -1;
    nanosleep(&(struct timespec){.tv_nsec = LINK_WAIT_NS}, NULL);
  }
}
