/* evaluation.h: lets SQLite evaluate words of a tessera_query. A nested SELECT runs over the table _tessera_query_rows, whose
 * rows the caller makes: a coordinate, a group, or a row of cells each. Its columns are slots with an affinity; in the
 * words of the query, names of columns are replaced by slots. So a nested SELECT reaches nothing but these slots and the
 * functions that parse.c has let pass. */
#ifndef TSX_ROWS_H
#define TSX_ROWS_H

#include "connection/connection.h"
#include "query/tree.h"

typedef enum tsx_affinity { TSX_SLOT_INTEGER, TSX_SLOT_REAL, TSX_SLOT_TEXT, TSX_SLOT_NONE } tsx_affinity;
#define TSX_SLOTS      16 /* of INTEGER, REAL and TEXT each */
#define TSX_SLOTS_NONE 400 /* without affinity */
#define TSX_SLOT_COUNT (3 * TSX_SLOTS + TSX_SLOTS_NONE)

typedef struct tsx_slots { /* which slots are in use; `= {0}` at first */
  uint16_t used[4];
} tsx_slots;

/* Takes the next slot of an affinity. Returns its number, or -1 if there are no more. */
int tsx_slot_take(tsx_slots *slots, tsx_affinity affinity);
tsx_affinity tsx_slot_affinity(const char *declared); /* of a column that is declared so, or a CAST to INT or NUM */
void tsx_slot_append(sqlite3_str *out, int slot); /* the slot's name in a nested SELECT */

typedef struct tsx_rows { /* the rows of one nested SELECT */
  int (*next)(struct tsx_rows *rows, tsr_error *error); /* returns 1 with a row, 0 at the end, < 0 on error */
  int (*column)(struct tsx_rows *rows, sqlite3_context *context, int slot, tsr_error *error);
  void *state;
} tsx_rows;

/* Writes the words of a tree. `replace` writes what stands in place of a node and returns true, or returns false. */
typedef bool (*tsx_replace)(void *argument, const tsx_expr *tree, sqlite3_str *out);
void tsx_words_append(sqlite3_str *out, const tsx_expr *tree, tsx_replace replace, void *argument);

/* Writes the words from *from on up to those of the tree's last replaced part, and sets *from behind that. */
void tsx_words_until(sqlite3_str *out, const tsx_expr *tree, const char **from, tsx_replace replace, void *argument);

/* Prepares `text`, whose FROM is TSX_ROWS_FROM. Frees the text. `rows` is used until the statement is finalized. */
#define TSX_ROWS_NAME "_tessera_query_rows"
#define TSX_ROWS_FROM " FROM " TSX_ROWS_NAME "(?1)"
int tsx_rows_prepare(tsx_connection *connection, sqlite3_str *text, tsx_rows *rows, sqlite3_stmt **statement,
                     tsr_error *error);

/* Binds rows to another parameter of a statement: `... FROM TSX_ROWS_NAME(?2)`. */
int tsx_rows_bind(tsx_connection *connection, sqlite3_stmt *statement, int parameter, tsx_rows *rows, tsr_error *error);

/* Takes a step. Returns 1 with a row, 0 at the end, < 0 on error. */
int tsx_rows_step(tsx_connection *connection, sqlite3_stmt *statement, tsr_error *error);

/* Fails because a statement that must have rows has none: an authorizer has answered SQLITE_IGNORE for the SELECT. */
int tsx_rows_none(tsr_error *error);

int tsx_rows_register(tsx_connection *connection); /* returns SQLite's code */

#endif
