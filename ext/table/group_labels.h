/* group_labels.h: coordinates that lie in a group beside an array, as labels of its dimensions (option labels='group'). */
#ifndef TSX_GROUP_LABELS_H
#define TSX_GROUP_LABELS_H

#include "table/module.h"

/* Opens the array that has the coordinates of dimension number `dimension`, or says where it lies. `*path`, from
 * sqlite3_malloc, is the array's; NULL: the group has none. The caller closes the index. */
int tsx_group_label_find(tsx_table *table, uint32_t dimension, char **path, tsr_label_index **index, tsr_error *error);
int tsx_group_label_open(tsx_table *table, uint32_t dimension, const char *path, tsr_label_index **index,
                         tsr_error *error);

#endif
