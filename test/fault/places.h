/* places.h: lets the allocations of one place in the sources fail. A place is a call of a function of base/memory.h that can fail; the linker
 * puts places.c between the call and the function (--wrap). In the extension, calls of SQLite's allocator are places, too: the extension is
 * loaded with a table of SQLite's functions that has other ones for these (places_load). Most allocations of arenas find room that is there
 * already, so a host without memory never makes them fail: what the code does then is tested here only. */
#ifndef FAULT_PLACES_H
#define FAULT_PLACES_H

#include <sqlite3.h>
#include <stdbool.h>

#define PLACES_MAX 8192 /* a power of 2; there are fewer places */

/* Loads the extension into a connection: an argument of sqlite3_auto_extension. */
int places_load(sqlite3 *db, char **message, const struct sqlite3_api_routines *api);

/* Notes the places that are passed from now on. */
void places_watch(void);

/* Returns the number of places that have been passed while they were noted, in any run. They are numbered from 1. */
long places_count(void);
bool places_met(long n); /* since the last places_watch */

/* Lets place n fail, once or whenever it is passed; 0: none. */
void places_arm(long n, bool on);
void places_end(void); /* no place fails, or is noted, from now on */
long places_failed(void); /* how many times, since places_arm */

/* Returns the place's address in the program, for addr2line. */
unsigned long places_address(long n);

#endif
