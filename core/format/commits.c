/* commits.c: the lists of committed, ignored and replaced fragments and deletes, and the table of consolidated footers.
 *
 * .con, consolidated commits (version 12 and later). Each entry is a line "__commits/NAME.wrt", or "NAME.ok" for a
 * fragment of versions 5 to 11, which is in the array's own directory. A newline ends the line. A line that ends in
 * ".del" or ".upd" is followed by a u64 size and that many bytes, the content of the file of that name; the next line
 * follows directly. A .con file is therefore not a text file.
 *   A .con file is truncated if it is empty or ends within an entry: its writer is still at work or has died, or part
 *   of the file was lost.
 *
 * .ign, ignored commits, and .vac, fragments that may be vacuumed: one path in each line. Below version 19 vacuum files
 * hold absolute URIs, later "/__fragments/NAME", "/__meta/NAME" or "/NAME". The last newline may be missing. An empty
 * file is an empty list.
 *
 * In all of these lists only the last component of a path counts: the array may have been moved, and no path in a list
 * is ever opened.
 *
 * .meta, consolidated footers, is one generic tile. Its content: u32 count; for each fragment u64 length, name (below
 * version 9 an absolute URI), u64 offset of the fragment's footer from the start of the content; then the footers. The
 * u64 length that follows a footer in the fragment's own file is absent here. A footer ends where the next one begins;
 * the last one ends with the content.
 *
 * A .con and a .meta whose names have the same stem (times, UUID and version: __commits/STEM.con and
 * __fragment_meta/STEM.meta) are a pair: both have the same fragments in the same order, if all of these are of version
 * 12 or later and the .con has no deletes (tsr__commits_match).
 *
 * Decoding accepts a file only if each name that must be timestamped parses (tsr__name_parse), and if the offsets of
 * footers never decrease and are after the table.
 */
#include "format/commits.h"
#include "format/layout.h"

#include <string.h>

#include "base/arithmetic.h"
#include "model/name.h"

#define NAME_MAX_SIZE 128

/* Narrows *path to its last component, ignoring trailing slashes. */
static void last_part(const char **path, uint64_t *size) {
  const char *p = *path;
  uint64_t end = *size;
  while (end && p[end - 1] == '/') end--;
  uint64_t begin = end;
  while (begin && p[begin - 1] != '/') begin--;
  *path = p + begin;
  *size = end - begin;
}

/* Gives the next line without its newline; *ended: a newline ends it. Returns false at the end of the input. */
static bool commits_next_line(tsr_input *in, const char **line, uint64_t *size, bool *ended) {
  uint64_t left = tsr__input_left(in);
  if (!left) return false;
  const uint8_t *begin = in->data + in->at, *newline = memchr(begin, '\n', left);
  *ended = newline;
  *size = newline ? (uint64_t)(newline - begin) : left;
  *line = (const char *)begin;
  tsr__input_take(in, *size + *ended);
  return true;
}

static uint64_t count_lines(const tsr_input *in) {
  uint64_t count = 0;
  for (uint64_t at = in->at; at < in->size; count++) {
    const uint8_t *newline = memchr(in->data + at, '\n', in->size - at);
    if (!newline) return count + 1;
    at = (uint64_t)(newline - in->data) + 1;
  }
  return count;
}

static int copy_name(tsr_arena *arena, const char *name, uint64_t size, char **copy, tsr_error *error) {
  TSR_TRY(TSR_ARENA_COPY(arena, name, size, copy, error));
  return TSR_OK;
}

/* ---- Consolidated commits ---------------------------------------------------------------------------------------- */

static const struct suffix {
  const char *text;
  tsr_commit_kind kind;
} suffixes[] = {{TSR_SUFFIX_WRITE, TSR_COMMIT_WRITE},
                {TSR_SUFFIX_OLD_WRITE, TSR_COMMIT_WRITE},
                {TSR_SUFFIX_DELETE, TSR_COMMIT_DELETE},
                {TSR_SUFFIX_UPDATE, TSR_COMMIT_UPDATE}};

static bool has_suffix(const char *text, uint64_t size, const char *suffix) {
  uint64_t length = strlen(suffix);
  return size >= length && !memcmp(text + size - length, suffix, length);
}

/* Reads the entry that begins with `line`, and the bytes that follow a delete or an update. If `arena` is NULL, the
 * entry is checked and skipped. */
static int read_commit(tsr_input *in, const char *line, uint64_t size, bool ended, tsr_arena *arena, tsr_commit *commit,
                       tsr_error *error) {
  const struct suffix *suffix = suffixes, *end = suffixes + sizeof suffixes / sizeof *suffixes;
  while (suffix < end && !has_suffix(line, size, suffix->text)) suffix++;
  if (suffix == end) return tsr__fail(error, TSR_CORRUPT, "it ends in none of .wrt, .ok, .del and .upd");
  uint64_t length = strlen(suffix->text);
  const char *name = line;
  uint64_t name_size = size;
  last_part(&name, &name_size);
  tsr_name parsed;
  if (name_size <= length || name_size > NAME_MAX_SIZE || !tsr__name_parse(name, name_size - length, &parsed))
    return tsr__fail(error, TSR_CORRUPT, "it holds no timestamped name");
  tsr_commit c = {.kind = suffix->kind};
  if (c.kind != TSR_COMMIT_WRITE) {
    if (!ended) return tsr__fail(error, TSR_CORRUPT, "its content is missing");
    c.size = tsr__input_u64(in);
    c.bytes = tsr__input_take(in, c.size);
    TSR_TRY(tsr__input_check(in, "what follows it", error));
  }
  if (!arena) return TSR_OK;
  TSR_TRY(copy_name(arena, name, name_size - length, &c.name, error));
  *commit = c;
  return TSR_OK;
}

/* Reads all entries. The caller runs it twice: with `arena` and `commits` NULL to count the entries, then to store
 * them. `*count` is the number of complete entries, also on an error. `*truncated` is set if the error is that the file
 * ends within an entry. */
static int read_commits(tsr_input in, tsr_arena *arena, tsr_commits *commits, uint64_t *count, bool *truncated,
                        tsr_error *error) {
  const char *line;
  uint64_t size, n = 0;
  bool ended;
  *count = 0;
  for (uint64_t at = in.at; commits_next_line(&in, &line, &size, &ended); at = in.at, *count = ++n) {
    int rc = read_commit(&in, line, size, ended, arena, commits ? commits->commits + n : NULL, error);
    if (rc < 0) {
      *truncated = rc == TSR_CORRUPT && (!ended || in.failed);
      tsr__wrap(error, "consolidated commits: entry %llu, '%.*s' at byte %llu of %llu", (unsigned long long)n,
                (int)TSR_MIN(size, 200), line, (unsigned long long)at, (unsigned long long)in.size);
      return rc;
    }
  }
  return TSR_OK;
}

int tsr__commits_decode(tsr_input *in, tsr_arena *arena, tsr_commits *commits, tsr_error *error) {
  tsr_commits all = {0};
  tsr_error unseen;
  if (!error) error = &unseen;
  *commits = all;
  /* not an empty list: writers never write one, and the commits that this file named may be in no other file */
  if (in->size == 0) {
    commits->truncated = true;
    return tsr__fail(error, TSR_CORRUPT, "consolidated commits: the file is empty, which no writer leaves");
  }
  const int rc = read_commits(*in, NULL, NULL, &all.count, &all.truncated, error);
  if (rc < 0 && !all.truncated) return rc;
  tsr_error again;
  TSR_TRY(TSR_ARENA_ARRAY(arena, all.count, &all.commits, error));
  const int kept = read_commits(*in, arena, &all, &all.count, &all.truncated, &again);
  if (kept < 0 && !(kept == TSR_CORRUPT && all.truncated)) return *error = again, kept;
  in->at = in->size;
  *commits = all;
  return rc;
}

/* ---- Ignore and vacuum files ------------------------------------------------------------------------------------- */

int tsr__names_decode(tsr_input *in, tsr_arena *arena, tsr_names *names, tsr_error *error) {
  tsr_names all = {0};
  TSR_TRY(TSR_ARENA_ARRAY(arena, count_lines(in), &all.names, error));
  const char *line;
  uint64_t size;
  bool ended;
  for (uint64_t at = in->at; commits_next_line(in, &line, &size, &ended); at = in->at, all.count++) {
    const char *name = line;
    uint64_t name_size = size;
    last_part(&name, &name_size);
    bool plain = name_size && name_size <= 255 && !memchr(name, 0, name_size) &&
                 !(name[0] == '.' && (name_size == 1 || (name_size == 2 && name[1] == '.')));
    if (!plain)
      return tsr__fail(error, TSR_CORRUPT, "list of names: line %llu, '%.*s' at byte %llu, ends in no file's name",
                       (unsigned long long)all.count + 1, (int)TSR_MIN(size, 200), line, (unsigned long long)at);
    TSR_TRY(copy_name(arena, name, name_size, all.names + all.count, error));
  }
  *names = all;
  return TSR_OK;
}

/* ---- Consolidated footers ---------------------------------------------------------------------------------------- */

static int read_footers(tsr_input *in, tsr_arena *arena, tsr_footers *all, tsr_error *error) {
  all->count = tsr__input_u32(in);
  if (!tsr__input_fits(in, all->count, 16)) return tsr__input_check(in, "the table", error);
  TSR_TRY(TSR_ARENA_ARRAY(arena, all->count, &all->footers, error));
  for (uint64_t i = 0; i < all->count; i++) {
    tsr_footer *footer = all->footers + i;
    uint64_t size = tsr__input_u64(in);
    const char *name = (const char *)tsr__input_take(in, size);
    footer->at = tsr__input_u64(in);
    TSR_TRY(tsr__input_check(in, "the table", error));
    last_part(&name, &size);
    tsr_name parsed;
    if (size > NAME_MAX_SIZE || !tsr__name_parse(name, size, &parsed))
      return tsr__fail(error, TSR_CORRUPT, "entry %llu has no timestamped name", (unsigned long long)i);
    TSR_TRY(copy_name(arena, name, size, &footer->name, error));
  }
  uint64_t end = in->size;
  for (uint64_t i = all->count; i-- > 0; end = all->footers[i].at) {
    tsr_footer *footer = all->footers + i;
    if (footer->at < in->at || footer->at > end)
      return tsr__fail(error, TSR_CORRUPT,
                       "the table puts the footer of '%s' at byte %llu, which is not in %llu to %llu", footer->name,
                       (unsigned long long)footer->at, (unsigned long long)in->at, (unsigned long long)end);
    footer->size = end - footer->at;
  }
  return TSR_OK;
}

/* Returns the number of footers whose offsets can be trusted. For footers of versions 3 and 4 (whose names carry no
 * version) and, since TileDB 2.8, of version 11, TileDB computes the offsets from other sizes than it writes, so all
 * footers after such a footer are not where the table says. Nothing is lost: each fragment also has its footer in its
 * own file. */
static uint64_t count_placed(const tsr_footers *all) {
  uint64_t count = 0;
  tsr_name parsed;
  while (count < all->count && tsr__name_parse(all->footers[count].name, strlen(all->footers[count].name), &parsed) &&
         !layout_miscounts_footers(parsed.version))
    count++;
  return count;
}

int tsr__footers_decode(const uint8_t *bytes, uint64_t size, tsr_arena *arena, tsr_footers *footers, tsr_error *error) {
  tsr_input in = tsr__input(bytes, size);
  tsr_footers all = {0};
  int rc = read_footers(&in, arena, &all, error);
  if (rc < 0) tsr__wrap(error, "consolidated fragment metadata");
  else {
    const uint64_t placed = count_placed(&all);
    all.partial = placed < all.count;
    all.count = placed;
    *footers = all;
  }
  return rc;
}

bool tsr__commits_match(const tsr_commits *commits, const tsr_footers *footers) {
  if (footers->partial || commits->count != footers->count) return false;
  for (uint64_t i = 0; i < commits->count; i++) {
    const tsr_commit *commit = &commits->commits[i];
    tsr_name parsed;
    if (commit->kind != TSR_COMMIT_WRITE || strcmp(commit->name, footers->footers[i].name) != 0) return false;
    if (!tsr__name_parse(commit->name, strlen(commit->name), &parsed) || !layout_has_commits_folder(parsed.version))
      return false;
  }
  return true;
}

static int encode_line(const char *name, const char *suffix, tsr_buffer *out, tsr_error *error) {
  return tsr__buffer_printf(out, error, TSR_DIR_COMMITS "/%s%s\n", name, suffix);
}

int tsr__commits_encode_write(const char *name, tsr_buffer *out, tsr_error *error) {
  return encode_line(name, TSR_SUFFIX_WRITE, out, error);
}

int tsr__commits_encode_delete(const char *name, const void *bytes, uint64_t size, tsr_buffer *out, tsr_error *error) {
  uint64_t before = out->size;
  int rc = encode_line(name, TSR_SUFFIX_DELETE, out, error);
  if (rc >= 0) rc = tsr__buffer_append_u64(out, size, error);
  if (rc >= 0) rc = tsr__buffer_append(out, bytes, size, error);
  if (rc < 0) out->size = before;
  return rc;
}
