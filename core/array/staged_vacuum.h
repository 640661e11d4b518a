/* staged_vacuum.h: vacuum files that have not got their names yet. A merge writes the list of its sources before it
 * commits, and gives it the name NAME.vac afterwards (replace.c). A merge that dies in between is finished by whoever
 * comes next.
 *
 *   .NAME.vac.new   counts as NAME.vac as soon as NAME is committed, but TileDB does not know it
 *   NAME.vac.ign    in arrays that allow duplicates: cancels the commit of NAME in NAME.con, until it becomes NAME.vac
 */
#ifndef TSR_STAGED_VACUUM_H
#define TSR_STAGED_VACUUM_H

#include <stdbool.h>

#include "base/error.h"

typedef struct tsr_array tsr_array;
typedef struct tsr_store tsr_store;

#define TSR_STAGED_NAME 128 /* bytes of a merged fragment's name */

/* Returns true if an entry of a directory is .NAME.vac.new. `name` receives NAME, which is timestamped. */
bool tsr__staged_vacuum(const char *entry, char name[TSR_STAGED_NAME]);

/* Returns true if an entry of __commits is NAME.vac.ign. `name` receives NAME. */
bool tsr__exchange(const char *entry, char name[TSR_STAGED_NAME]);

/* Renames NAME.vac.ign to NAME.vac and commits NAME by NAME.wrt, too, durably: the merged fragment takes the place of its
 * sources. NAME.wrt is necessary because TileDB removes NAME.con together with the .ign files if another list has all
 * commits that count. Another process may have done so, which is no error. */
int tsr__exchange_finish(tsr_store *store, const char *name, tsr_error *error);

/* Gives .NAME.vac.new its name, durably. Only for a merged fragment that is committed. Another process may have done so,
 * which is no error. `directory`: where the file lies, "" for the root. */
int tsr__staged_vacuum_finish(tsr_store *store, const char *directory, const char *name, tsr_error *error);

/* Finishes all merges of the array's listing that have committed and whose vacuum file has not got its name. The process
 * of such a merge may live and do the same. A merge of duplicates whose sources have been merged by others since is
 * taken back. Lists the array anew if there was one. */
int tsr__staged_vacuums_finish(tsr_array *array, tsr_error *error);

#endif
