/* datetime.c: datetime and time values as ISO-8601 text, and back.
 *
 * A DATETIME value counts units since 1970-01-01T00:00 UTC, in the proleptic Gregorian calendar without leap seconds.
 * Years and months are calendar years and months. A week has 7 days and begins on a Thursday, as 1970-01-01 was one. A
 * TIME value counts units since midnight. INT64_MIN is "not a time" (NaT). Only the years 0000 to 9999 can be printed.
 *
 * Both directions go through a moment: whole seconds, since 1970 or since midnight, and a fraction in units of 10^-18
 * seconds.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "model/datatype.h"
#include "tessera_host.h"

#define SECONDS_PER_DAY INT64_C(86400)
#define DAYS_TO_1970    INT64_C(719528) /* days from 0000-01-01 to 1970-01-01 */
#define DAYS_TO_10000   INT64_C(3652425)

typedef struct unit {
  int64_t seconds; /* of one unit; 0 for years and months; 1 for units shorter than a second */
  int digits; /* decimal digits of the fraction of a second */
} unit;

/* From DATETIME_YEAR to DATETIME_AS. TIME_HR to TIME_AS have the units of DATETIME_HR to DATETIME_AS. */
static const unit units[] = {{0, 0}, {0, 0}, {604800, 0}, {86400, 0}, {3600, 0}, {60, 0}, {1, 0},
                             {1, 3}, {1, 6}, {1, 9},      {1, 12},    {1, 15},   {1, 18}};

static unit datetime_unit_of(tsr_datatype datatype) {
  return units[datatype >= TSR_TIME_HR ? datatype - TSR_TIME_HR + TSR_DATETIME_HR - TSR_DATETIME_YEAR
                                       : datatype - TSR_DATETIME_YEAR];
}

static int64_t power_of_10(int exponent) {
  int64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

/* ---- Calendar, for years 0 to 10000 ---------------------------------------------------------- */

static bool is_leap(int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

static int64_t days_before_year(int64_t year) {
  return 365 * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400;
}

static int64_t days_in_month(int64_t year, int64_t month) {
  static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[month - 1] + (month == 2 && is_leap(year));
}

typedef struct date {
  int64_t year, month, day; /* month and day start at 1 */
} date;

static int64_t days_since_1970(date d) {
  int64_t days = days_before_year(d.year) + d.day - 1 - DAYS_TO_1970;
  for (int64_t month = 1; month < d.month; month++) days += days_in_month(d.year, month);
  return days;
}

/* Returns the date that is `days` after 0000-01-01, for days below DAYS_TO_10000. */
static date date_of(int64_t days) {
  date d = {days * 400 / 146097, 1, 1}; /* off by at most one year */
  while (days_before_year(d.year) > days) d.year--;
  while (days_before_year(d.year + 1) <= days) d.year++;
  days -= days_before_year(d.year);
  while (days >= days_in_month(d.year, d.month)) days -= days_in_month(d.year, d.month++);
  d.day = days + 1;
  return d;
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); } /* for b > 0 */

bool tsr__datetime_day(tsr_datatype datatype, int64_t value, int32_t *day) {
  int64_t days = value;
  if (datatype == TSR_DATETIME_YEAR || datatype == TSR_DATETIME_MONTH) {
    const int64_t per_year = datatype == TSR_DATETIME_YEAR ? 1 : 12;
    if (value < -1970 * per_year || value >= (10000 - 1970) * per_year) return false;
    const int64_t year = floor_divide(value, per_year);
    days = days_since_1970((date){1970 + year, value - year * per_year + 1, 1});
  } else if (datatype == TSR_DATETIME_WEEK && (value < INT32_MIN / 7 || value > INT32_MAX / 7)) {
    return false;
  } else if (datatype == TSR_DATETIME_WEEK) {
    days = 7 * value;
  }
  *day = (int32_t)days;
  return days >= INT32_MIN && days <= INT32_MAX;
}

/* ---- Value to text --------------------------------------------------------------------------- */

/* Prints a second of the day and its fraction, with the unit's precision. */
static int print_clock(unit u, int64_t second, int64_t fraction, char *text) {
  int hour = (int)(second / 3600), minute = (int)(second / 60 % 60), size;
  if (u.seconds > 1) return sprintf(text, "%02d:%02d", hour, minute);
  size = sprintf(text, "%02d:%02d:%02d", hour, minute, (int)(second % 60));
  if (u.digits) size += sprintf(text + size, ".%0*" PRId64, u.digits, fraction);
  return size;
}

static int print_datetime(tsr_datatype datatype, int64_t value, char *text) {
  unit u = datetime_unit_of(datatype);
  if (u.seconds == 0) {
    if (value < -1970 * 12 || value >= (10000 - 1970) * 12) return 0; /* keeps the arithmetic below from overflowing */
    int64_t months = datatype == TSR_DATETIME_YEAR ? (1970 + value) * 12 : 1970 * 12 + value;
    if (months < 0 || months >= 10000 * 12) return 0;
    if (datatype == TSR_DATETIME_YEAR) return sprintf(text, "%04d", (int)(months / 12));
    return sprintf(text, "%04d-%02d", (int)(months / 12), (int)(months % 12 + 1));
  }
  int64_t scale = power_of_10(u.digits), seconds;
  int64_t whole = floor_divide(value, scale), fraction = value % scale;
  if (fraction < 0) fraction += scale;
  if (__builtin_mul_overflow(whole, u.seconds, &seconds)) return 0;
  int64_t day = floor_divide(seconds, SECONDS_PER_DAY);
  if (day < -DAYS_TO_1970 || day >= DAYS_TO_10000 - DAYS_TO_1970) return 0;
  int64_t second = seconds - day * SECONDS_PER_DAY;
  date d = date_of(day + DAYS_TO_1970);
  int size = sprintf(text, "%04d-%02d-%02d", (int)d.year, (int)d.month, (int)d.day);
  if (u.seconds >= SECONDS_PER_DAY) return size;
  text[size++] = ' ';
  return size + print_clock(u, second, fraction, text + size);
}

int tsr_datetime_print(tsr_datatype datatype, int64_t value, char *text) {
  text[0] = 0;
  if (value == INT64_MIN) return 0;
  switch (tsr_datatype_kind(datatype)) {
  case TSR_KIND_DATETIME: return print_datetime(datatype, value, text);
  case TSR_KIND_TIME: {
    unit u = datetime_unit_of(datatype);
    int64_t scale = power_of_10(u.digits), seconds;
    if (value < 0 || __builtin_mul_overflow(value / scale, u.seconds, &seconds) || seconds >= SECONDS_PER_DAY) return 0;
    return print_clock(u, seconds, value % scale, text);
  }
  default: return 0;
  }
}

/* ---- Text to value --------------------------------------------------------------------------- */

typedef struct datetime_cursor {
  const char *at, *end;
  const char *why; /* what is wrong with the text; NULL: nothing so far */
} datetime_cursor;

/* Reads a number of exactly `count` digits between `low` and `high`; otherwise sets `why`. */
static int64_t datetime_take_number(datetime_cursor *in, int count, int64_t low, int64_t high, const char *why) {
  int64_t value = 0;
  for (int i = 0; i < count && !in->why; i++) {
    if (in->at == in->end || *in->at < '0' || *in->at > '9') in->why = why;
    else value = value * 10 + (*in->at++ - '0');
  }
  if (!in->why && (value < low || value > high)) in->why = why;
  return in->why ? low : value;
}

static bool datetime_take(datetime_cursor *in, char c) {
  if (in->why || in->at == in->end || *in->at != c) return false;
  in->at++;
  return true;
}

typedef struct moment {
  int64_t second; /* since midnight, or since 1970 */
  int64_t fraction; /* in 10^-18 seconds */
  bool beyond; /* the text has nonzero digits after the 18th of the fraction */
} moment;

/* Reads HH[:MM[:SS[.fraction]]]. A TIME must have minutes. */
static void take_clock(datetime_cursor *in, bool minutes, moment *m) {
  m->second += 3600 * datetime_take_number(in, 2, 0, 23, "the hour is not 00 to 23");
  if (!datetime_take(in, ':')) {
    if (minutes && !in->why) in->why = "HH:MM is expected";
    return;
  }
  m->second += 60 * datetime_take_number(in, 2, 0, 59, "the minute is not 00 to 59");
  if (!datetime_take(in, ':')) return;
  m->second += datetime_take_number(in, 2, 0, 59, "the second is not 00 to 59");
  if (!datetime_take(in, '.')) return;
  int64_t unit_of_digit = power_of_10(18);
  const char *first = in->at;
  for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++) {
    unit_of_digit /= 10;
    m->fraction += unit_of_digit * (*in->at - '0');
    m->beyond |= unit_of_digit == 0 && *in->at != '0';
  }
  if (in->at == first) in->why = "digits are missing behind the point";
}

/* Reads YYYY[-MM[-DD]]. Returns true if it has a day, so that a time of day may follow. */
static bool take_date(datetime_cursor *in, date *d) {
  *d = (date){datetime_take_number(in, 4, 0, 9999, "it does not begin with a year of four digits"), 1, 1};
  if (!datetime_take(in, '-')) return false;
  d->month = datetime_take_number(in, 2, 1, 12, "the month is not 01 to 12");
  if (!datetime_take(in, '-')) return false;
  d->day = datetime_take_number(in, 2, 1, 31, "the day is not 01 to 31");
  if (!in->why && d->day > days_in_month(d->year, d->month)) in->why = "the month has no such day";
  return !in->why;
}

/* Reads an offset from UTC: +HH[[:]MM] or -HH[[:]MM], with or without a blank before it. Returns false if there is none. */
static bool take_offset(datetime_cursor *in, int64_t *seconds) {
  if (!in->why && in->end - in->at > 1 && *in->at == ' ' && (in->at[1] == '+' || in->at[1] == '-')) in->at++;
  const bool east = datetime_take(in, '+');
  if (!east && !datetime_take(in, '-')) return false;
  *seconds = 3600 * datetime_take_number(in, 2, 0, 23, "the hour of the offset is not 00 to 23");
  if (datetime_take(in, ':') || in->at < in->end)
    *seconds += 60 * datetime_take_number(in, 2, 0, 59, "the minute of the offset is not 00 to 59");
  if (!east) *seconds = -*seconds;
  return true;
}

/* Counts the units up to a moment. Returns TSR_OK; TSR_MISMATCH, with *why, if the moment lies between two units; or
 * TSR_RANGE. */
static int count_units(unit u, moment m, int64_t *value, const char **why) {
  int64_t step = power_of_10(18 - u.digits);
  if (m.beyond || m.fraction % step != 0 || m.second % u.seconds != 0) {
    *why = u.seconds == 604800 && m.second % SECONDS_PER_DAY == 0 && m.fraction == 0 && !m.beyond
               ? "it is not on the grid of weeks, which begin on Thursdays"
               : "it is finer than the unit";
    return TSR_MISMATCH;
  }
  tsr_wide count = (tsr_wide)(m.second / u.seconds) * power_of_10(u.digits) + m.fraction / step;
  if (count <= INT64_MIN || count > INT64_MAX) return TSR_RANGE;
  *value = (int64_t)count;
  return TSR_OK;
}

/* Moves a moment that an offset has put before or behind its day to the day on which it is. TSR_RANGE: that lies outside
 * the years 0 to 9999. */
static int carry_days(date *d, moment *m) {
  const int64_t more = floor_divide(m->second, SECONDS_PER_DAY);
  const int64_t days = DAYS_TO_1970 + days_since_1970(*d) + more;
  if (days < 0 || days >= DAYS_TO_10000) return TSR_RANGE;
  *d = date_of(days);
  m->second -= more * SECONDS_PER_DAY;
  return TSR_OK;
}

static int count_calendar(tsr_datatype datatype, date d, moment m, int64_t *value, const char **why) {
  bool years = datatype == TSR_DATETIME_YEAR;
  if ((years && d.month != 1) || d.day != 1 || m.second || m.fraction || m.beyond) {
    *why = "it is finer than the unit";
    return TSR_MISMATCH;
  }
  *value = years ? d.year - 1970 : (d.year - 1970) * 12 + d.month - 1;
  return TSR_OK;
}

static int datetime_refuse(tsr_datatype datatype, const char *text, uint64_t size, int rc, const char *why,
                           tsr_error *error) {
  const uint64_t shown = tsr_utf8_cut(text, size, 64);
  return tsr__fail(error, rc, "'%.*s%s' is not a valid %s: %s", (int)shown, text, shown < size ? "..." : "",
                   tsr_datatype_name(datatype), why);
}

/* Parses text as a date with an optional time of day or, for a TIME, as a time since midnight. The time of day behind a
 * date may have an offset from UTC: *d and *m are in UTC. Returns TSR_OK, or TSR_MISMATCH or TSR_RANGE with *why. */
static int datetime_take_text(tsr_kind kind, const char *text, uint64_t size, date *d, moment *m, const char **why) {
  datetime_cursor in = {text, text + size, NULL};
  int64_t offset = 0;
  bool has_offset = false;
  *d = (date){1970, 1, 1};
  *m = (moment){0};
  if (kind == TSR_KIND_TIME) {
    take_clock(&in, true, m);
  } else if (take_date(&in, d) && (datetime_take(&in, 'T') || datetime_take(&in, ' '))) {
    take_clock(&in, false, m);
    has_offset = take_offset(&in, &offset);
  }
  if (!has_offset) datetime_take(&in, 'Z');
  if (!in.why && in.at != in.end) in.why = "more text follows than belongs to it";
  *why = in.why;
  if (in.why) return TSR_MISMATCH;
  m->second -= offset;
  if (kind == TSR_KIND_TIME || (m->second >= 0 && m->second < SECONDS_PER_DAY)) return TSR_OK;
  *why = "in UTC it is outside the years 0000 to 9999";
  return carry_days(d, m);
}

static int datetime_read(tsr_datatype datatype, const char *text, uint64_t size, int64_t *value, tsr_error *error) {
  tsr_kind kind = tsr_datatype_kind(datatype);
  if (kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME)
    return datetime_refuse(datatype, text, size, TSR_MISMATCH, "that is neither a datetime nor a time type", error);

  date d;
  moment m;
  const char *why;
  int rc = datetime_take_text(kind, text, size, &d, &m, &why);
  if (rc < 0) return datetime_refuse(datatype, text, size, rc, why, error);

  int64_t found;
  why = "it is outside the range of the type";
  if (datatype == TSR_DATETIME_YEAR || datatype == TSR_DATETIME_MONTH) {
    rc = count_calendar(datatype, d, m, &found, &why);
  } else {
    if (kind == TSR_KIND_DATETIME) m.second += days_since_1970(d) * SECONDS_PER_DAY;
    rc = count_units(datetime_unit_of(datatype), m, &found, &why);
  }
  if (rc < 0) return datetime_refuse(datatype, text, size, rc, why, error);
  *value = found;
  return TSR_OK;
}

int tsr_datetime_parse(tsr_datatype datatype, const char *text, uint64_t size, int64_t *value, tsr_error *error) {
  TSR_OWN_ERROR(error);
  return datetime_read(datatype, text, size, value, error);
}

/* ---- Units ------------------------------------------------------------------------------------------------------- */

bool tsr__time_convert(tsr_datatype from, tsr_datatype to, int64_t *value) {
  const unit a = datetime_unit_of(from), b = datetime_unit_of(to);
  tsr_wide numerator = (tsr_wide)a.seconds * power_of_10(b.digits),
           denominator = (tsr_wide)b.seconds * power_of_10(a.digits);
  if (*value == INT64_MIN) return true;
  if (numerator >= denominator) { /* all units divide each other */
    const tsr_wide ratio = numerator / denominator;
    int64_t made = 0;
    if (*value != 0 && (ratio > INT64_MAX || __builtin_mul_overflow(*value, (int64_t)ratio, &made))) return false;
    *value = made;
    return made != INT64_MIN;
  }
  const tsr_wide ratio = denominator / numerator;
  if (*value % ratio != 0) return false;
  *value = (int64_t)(*value / ratio);
  return true;
}

/* ---- Where a text lies among the values ------------------------------------------------------ */

/* Returns the lower bound of a moment: the first value not before it. It may lie outside the range of the type. */
static tsr_wide datetime_place(tsr_datatype datatype, date d, moment m, bool *exact) {
  const bool later = m.second || m.fraction || m.beyond;
  if (datatype == TSR_DATETIME_YEAR) {
    *exact = !later && d.day == 1 && d.month == 1;
    return d.year - 1970 + !*exact;
  }
  if (datatype == TSR_DATETIME_MONTH) {
    *exact = !later && d.day == 1;
    return (d.year - 1970) * 12 + d.month - 1 + !*exact;
  }
  const unit u = datetime_unit_of(datatype);
  const int64_t step = power_of_10(18 - u.digits);
  if (tsr_datatype_kind(datatype) == TSR_KIND_DATETIME) m.second += days_since_1970(d) * SECONDS_PER_DAY;
  *exact = !m.beyond && m.fraction % step == 0 && m.second % u.seconds == 0;
  return (tsr_wide)floor_divide(m.second, u.seconds) * power_of_10(u.digits) + m.fraction / step + !*exact;
}

tsr_instant_place tsr_datetime_place(tsr_datatype datatype, const char *text, uint64_t size, int64_t *value) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  date d;
  moment m;
  bool exact;
  *value = INT64_MAX;
  const char *why;
  if ((kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME) || datetime_take_text(kind, text, size, &d, &m, &why) < 0)
    return TSR_INSTANT_NONE;
  const tsr_wide found = datetime_place(datatype, d, m, &exact);
  if (found > INT64_MAX) return TSR_INSTANT_END;
  *value = found > INT64_MIN ? (int64_t)found : INT64_MIN + 1; /* INT64_MIN is NaT */
  return exact && found == *value ? TSR_INSTANT_AT : TSR_INSTANT_BEFORE;
}

/* Returns which fraction of its calendar unit (a year or a month) has passed at a moment, for tsr_datetime_part. */
static double calendar_part(bool years, date d, moment m) {
  const date first = {d.year, years ? 1 : d.month, 1};
  const bool last = years || d.month == 12;
  const date next = {d.year + last, last ? 1 : d.month + 1, 1};
  const int64_t length = days_since_1970(next) - days_since_1970(first);
  const double days = (double)(days_since_1970(d) - days_since_1970(first)) + (double)m.second / SECONDS_PER_DAY;
  return days / (double)length;
}

double tsr_datetime_part(tsr_datatype datatype, const char *text, uint64_t size) {
  const tsr_kind kind = tsr_datatype_kind(datatype);
  date d;
  moment m;
  const char *why;
  if ((kind != TSR_KIND_DATETIME && kind != TSR_KIND_TIME) || datetime_take_text(kind, text, size, &d, &m, &why) < 0)
    return 0;
  if (datatype == TSR_DATETIME_YEAR || datatype == TSR_DATETIME_MONTH)
    return calendar_part(datatype == TSR_DATETIME_YEAR, d, m);
  const unit u = datetime_unit_of(datatype);
  const int64_t step = power_of_10(18 - u.digits);
  if (kind == TSR_KIND_DATETIME) m.second += days_since_1970(d) * SECONDS_PER_DAY;
  if (u.digits) return (double)(m.fraction % step) / (double)step;
  const int64_t seconds = m.second - floor_divide(m.second, u.seconds) * u.seconds;
  return ((double)seconds + (double)m.fraction / 1e18) / (double)u.seconds;
}
