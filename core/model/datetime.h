/* datetime.h: what the engine needs of datetimes beside the functions of tessera.h. */
#ifndef TSR_DATETIME_H
#define TSR_DATETIME_H

#include "tessera.h"

/* Gives the first day, counted since 1970-01-01, of a value of DATETIME_YEAR, _MONTH, _WEEK or _DAY. Returns false if
 * the day does not fit into 32 bits, or if a year or month lies outside of the years 0 to 9999. */
bool tsr__datetime_day(tsr_datatype datatype, int64_t value, int32_t *day);

#endif
