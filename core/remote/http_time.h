/* http_time.h: instants as HTTP, XML and JSON answers write them, and as signatures need them. */
#ifndef TSR_HTTP_TIME_H
#define TSR_HTTP_TIME_H

#include "tessera.h"

/* Reads a time: "Sun, 06 Nov 1994 08:49:37 GMT" of HTTP headers, or ISO 8601 as "2026-11-22T10:20:30Z", with a fraction
 * of seconds of any length and "Z", "+hh:mm" or "-hh:mm" behind it. Returns false, and leaves *ms as it is, if `text`
 * is neither, or lies outside the years 1 to 9999. *ms: milliseconds since 1970-01-01 UTC, rounded down. */
bool tsr__http_time_parse(const char *text, int64_t *ms);

#define TSR_HTTP_STAMP_SIZE 17

/* Writes the time as "20261122T102030Z" and a NUL byte. Times outside the years 1 to 9999 become the nearest one. */
void tsr__http_time_stamp(int64_t ms, char stamp[TSR_HTTP_STAMP_SIZE]);

#endif
