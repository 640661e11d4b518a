/* follow.h: who follows the first array: copies that tessera_sync brings up to date, and feeds. */
#ifndef SIMULATE_FOLLOW_H
#define SIMULATE_FOLLOW_H

#include "world.h"

void follow_sync(actor *a); /* brings the machine's copy up to date, and looks at it */
void follow_feed(
    actor *a); /* takes what is new since the actor's last token, and compares what it has with the array */
bool follow_has(int copy); /* whether a sync of it has succeeded since the power failed last */
int follow_number(int copy); /* which of the machine's copies it is, from 0 on */
void follow_power_failed(void);
void follow_to_the_end(void); /* all copies have everything */
void follow_end(void);

#endif
