/* query_table.h: the virtual table module tessera_query: CREATE VIRTUAL TABLE q USING tessera_query(SELECT ...). */
#ifndef TSX_QUERY_TABLE_H
#define TSX_QUERY_TABLE_H

#include "connection/connection.h"
#include "query/query_internal.h"

int tsx_register_query(tsx_connection *connection); /* returns SQLite's code */

/* Finds which columns of a tessera_query table are its GROUP BY keys. columns[room] gets their numbers, from 0, in the
 * order of the keys. Returns how many; 0 if there is no such table, its query has no GROUP BY, it has more than `room`
 * keys, or a key is not among the columns. < 0 on error. */
int tsx_query_table_keys(tsx_connection *connection, const char *schema, const char *name, uint32_t *columns,
                         uint32_t room, tsr_error *error);

typedef struct tsx_query_shown { /* what a column of a tessera_query table shows */
  bool
      typed; /* BOOL, datetimes, times, or UINT64 past the signed range: a key, a bare column, or min() or max() of one */
  tsr_datatype datatype;
  bool duration;
} tsx_query_shown;

/* Finds which columns of a tessera_query table show values whose type SQL does not tell. columns[room] gets what each
 * of them shows. Returns how many there are, at most `room`; 0 if there is no such table. < 0 on error. */
int tsx_query_table_shown(tsx_connection *connection, const char *schema, const char *name, tsx_query_shown *columns,
                          uint32_t room, tsr_error *error);

typedef struct tsx_query_words { /* what the CREATE of a tessera_query table says */
  const char *text; /* the SELECT; borrowed until a statement is prepared */
  uint64_t memory_bytes; /* 0: not given, as are the threads */
  unsigned threads;
} tsx_query_words;

/* Finds the text of a tessera_query table that some statement has connected. Returns false if there is none. */
bool tsx_query_table_text(const tsx_connection *connection, const char *schema, const char *name,
                          tsx_query_words *found);

/* A statement that selects columns of one tessera_query, and nothing else, has been stepped to its first row. Returns
 * the run that gives the rows, whose items are the columns, and which stands at this row; *table gets the table's name.
 * NULL: the rows do not come from a run of cells, or the scan is one of another table. Borrowed until the statement is
 * stepped or reset. After the run has moved on, the statement can only be reset. */
tsx_run *tsx_query_scan_run(tsx_connection *connection, const char *schema, const char *name, const char **table);

#endif
