/* attach.h: tessera_attach, tessera_detach and tessera_attached: the arrays of a group as tables.
 *
 *   members.c   walks a group: which arrays it has, and what their tables are called
 *   layouts.c   what the tables of well-known layouts of groups show: SOMA, VCF, coordinates of CF
 *   attach.c    makes and drops the tables, remembers them, and shows them */
#ifndef TSX_FRONT_ATTACH_H
#define TSX_FRONT_ATTACH_H

#include "call/table_function.h"
#include "connection/connection.h"
#include "connection/sqlite_api.h"
#include "tessera.h"

/* ---- The tables to make ------------------------------------------------------------------------------------------ */

typedef enum tsx_layout_kind {
  TSX_LAYOUT_AUTO,
  TSX_LAYOUT_PLAIN,
  TSX_LAYOUT_SOMA,
  TSX_LAYOUT_CF,
  TSX_LAYOUT_VCF
} tsx_layout_kind;

typedef struct tsx_attach_options {
  tsx_layout_kind as;
  char *prefix, *schema, *measurement; /* from sqlite3_malloc; `measurement` may be NULL */
  uint64_t depth, tables; /* limits */
  bool keep; /* the database remembers the path and the options */
  uint64_t as_of; /* of the group's members and metadata */
  char *rest; /* options of each table, as in CREATE VIRTUAL TABLE, each after ", "; "" if there are none */
} tsx_attach_options;

typedef struct tsx_attach_table { /* one table; its texts are from sqlite3_malloc */
  char *member; /* the names that lead to it from the group, joined by '/'; "" for a single array */
  char *path;
  char *name; /* in SQL, with the prefix */
  char *options; /* more options of its declaration, each after ", "; NULL: none */
  const char *module; /* NULL: tessera */
  const char *semantics; /* what the layout takes it for */
  bool missing; /* no table is made: nothing is there, it may not be reached, or there is a problem */
  char *problem; /* why it cannot be opened; or NULL */
  tsx_array *array; /* one reference, or NULL */
} tsx_attach_table;

typedef struct tsx_attachment { /* `= {0}` may be freed */
  tsx_connection *connection;
  const tsx_attach_options *options;
  char *root; /* the path of the group or array */
  bool has_key;
  uint8_t key[32]; /* of groups */
  tsx_attach_table *tables;
  uint32_t count;
  tsx_layout_kind layout;
} tsx_attachment;

void tsx_attachment_free(tsx_attachment *all);

/* ---- members.c --------------------------------------------------------------------------------------------------- */

/* Finds all arrays of the group at all->root, or the array there, with their members' names. TSR_NOT_FOUND: neither is
 * there; TSR_TOOBIG: more of them, or deeper ones, than the options allow. */
int tsx_members_find(tsx_attachment *all, tsr_error *error);

/* Forgets the tables that were found. */
void tsx_members_forget(tsx_attachment *all);

/* Adds a table, and takes over `member`. `path` is copied. */
int tsx_members_add(tsx_attachment *all, char *member, const char *path, bool missing, tsr_error *error);

/* Notes that a member cannot be opened, because of *error, and makes no table of it: the others are attached all the
 * same. Returns TSR_OK; an error that may pass, or that does not concern this member alone, is returned as it is. */
int tsx_members_fail(tsx_attach_table *table, tsr_error *error);

/* Gives each table without a name the one of its member, and then tells equal names apart. */
int tsx_members_name(tsx_attachment *all, tsr_error *error);

/* ---- layouts.c --------------------------------------------------------------------------------------------------- */

/* Finds the layout, unless the options name one, and sets what the tables show by it: names, options, semantics. */
int tsx_layout_apply(tsx_attachment *all, tsr_error *error);

/* Opens table->array, unless it is open. */
int tsx_layout_open(tsx_attachment *all, tsx_attach_table *table, tsr_error *error);

/* ---- attach.c ---------------------------------------------------------------------------------------------------- */

/* Attaches a path that the database remembers, with its options as it remembers them; NULL: none. Adds the number of
 * the path's tables to *tables. The error names the path, and each member that cannot be opened; the others are
 * attached. */
int tsx_attach_again(tsx_connection *connection, const char *path, const char *options, uint64_t *tables,
                     tsr_error *error);

void tsx_attach(sqlite3_context *context, int count, sqlite3_value **values); /* (path[, options]) */
void tsx_detach(sqlite3_context *context, int count, sqlite3_value **values); /* (path) */

#endif
