/* type.h: the Arrow type of each field, and Arrow schemas. docs/reference/functions/arrow.md has the table of types. */
#ifndef TSR_ARROW_TYPE_H
#define TSR_ARROW_TYPE_H

#include "base/memory.h"
#include "tessera.h"

typedef enum tsr_arrow_form { /* how one value of a cell is converted */
                              TSR_ARROW_COPY, /* unchanged */
                              TSR_ARROW_BITS, /* BOOL: eight in a byte */
                              TSR_ARROW_DAYS, /* years, months, weeks, days: the first day, as int32 */
                              TSR_ARROW_SCALED, /* int64, multiplied by `factor` */
                              TSR_ARROW_CLOCK32, /* a time within one day, multiplied by `factor`, as int32 */
                              TSR_ARROW_CLOCK64, /* a time within one day, as int64 */
                              TSR_ARROW_WIDEN, /* a number, as the wider type of `format` */
                              TSR_ARROW_NULLS, /* all values are null, and have no type */
                              TSR_ARROW_BYTES, /* a string or bytes, unchanged */
                              TSR_ARROW_TEXT, /* a string of UTF-8, which is checked */
                              TSR_ARROW_WIDE_TEXT /* a string of UTF-16 or UTF-32, as UTF-8 */
} tsr_arrow_form;

typedef enum tsr_arrow_list { TSR_ARROW_ONE, TSR_ARROW_FIXED_LIST, TSR_ARROW_LARGE_LIST } tsr_arrow_list;

typedef struct tsr_arrow_type {
  const char *name; /* of the column; borrowed */
  tsr_datatype datatype;
  uint32_t values_per_cell;
  tsr_arrow_form form;
  tsr_arrow_list list; /* cells with several numbers */
  bool narrow; /* strings: 32-bit offsets */
  bool views; /* strings: views instead of offsets; narrow is set, too */
  bool nullable;
  bool integer_datetimes;
  uint8_t width; /* bytes of one converted value; 0 for strings and bits */
  int64_t factor, day; /* SCALED, CLOCK: the factor; CLOCK: the number of units in a day */
  char format[24], item[8]; /* Arrow's format strings, of the column and of a list's values */
  const char *extension; /* "geoarrow.wkb" and so on; NULL: none */
  const tsr_enumeration *labels; /* the enumeration of the column; NULL: it has none, or is shown as plain codes */
  bool decoded; /* the column has labels instead of codes: the other members describe a label */
} tsr_arrow_type;

/* Chooses the type of a field. `labels`: the field's enumeration, loaded; NULL if it has none. `dense`: the array may
 * have cells that were never written. */
void tsr__arrow_type_choose(const tsr_field *field, const tsr_enumeration *labels, bool dense,
                            const tsr_arrow_options *options, tsr_arrow_type *type);

/* Chooses the type of an enumeration's labels, which are a column of their own in a dictionary. */
void tsr__arrow_type_labels(const tsr_enumeration *labels, const tsr_arrow_options *options, tsr_arrow_type *type);

/* Changes a type to that of a column in which all values are null. */
void tsr__arrow_type_nulls(tsr_arrow_type *type);

/* Changes the types to those of a schema that a consumer requests, if the names match and each column can be cast
 * without loss: to a wider number, another layout of strings, a finer unit of instants, a duration instead of a time of
 * day, or labels instead of a dictionary. Returns false, and changes nothing, if some column cannot. */
bool tsr__arrow_types_request(tsr_arrow_type *types, uint32_t count, const tsr_arrow_options *options,
                              const struct ArrowSchema *requested);

/* Makes *out the schema of a batch with these columns: a struct. The caller must call out->release. */
int tsr__arrow_schema_make(const tsr_arrow_type *types, uint32_t count, const tsr_arrow_options *options,
                           struct ArrowSchema *out, tsr_error *error);

#endif
