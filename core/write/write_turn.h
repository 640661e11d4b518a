/* write_turn.h: turns, by which the commits of many machines get times that differ and that rise in the order of their
 * publication. A store in which writers of several machines commit, and which has no locks, sets `commits_in_turns`. */
#ifndef TSR_WRITE_TURN_H
#define TSR_WRITE_TURN_H

#include "array/array.h"

typedef struct tsr_turn tsr_turn;

#define TSR_TURN_OLD (UINT64_C(3600) * 1000) /* ms after which a vacuum may remove the file of a turn */

/* Takes the turn of the next commit of an array, and waits for writers that have theirs. *after: the time of the last
 * commit; the next one gets a later time. *turn is NULL if the store needs no turns. Writers of one environment share
 * the turn of an array. The caller ends the turn with tsr__turn_end. */
int tsr__turn_take(tsr_array *array, tsr_turn **turn, uint64_t *after, tsr_error *error);

/* Ends a turn: the commit was published, or it is left to others. */
void tsr__turn_end(tsr_turn **turn);

/* Gives a turn back whose commit will not be published, so that nobody waits for it. A turn that was taken long ago
 * only ends: another writer may have taken over. */
void tsr__turn_give_back(tsr_turn **turn, tsr_store *store);

#endif
