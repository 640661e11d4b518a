/* host.c: a program with SQLite in it that loads the extension and runs scripts, for machines that have no sqlite3 shell.
 *
 * usage: host EXTENSION DATABASE SCRIPT ...
 *
 * It prints a row as a line, columns parted by '|', and an error as "Error: ..." after which it goes on. Of the shell's
 * own commands it knows .print; .load, .mode and .headers are passed over, because the extension is loaded already, and
 * another form of the same rows is nothing that a machine could get wrong.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

static void print_row(sqlite3_stmt *statement) {
  for (int i = 0; i < sqlite3_column_count(statement); i++) {
    if (i) putchar('|');
    if (sqlite3_column_type(statement, i) == SQLITE_BLOB) printf("%d bytes", sqlite3_column_bytes(statement, i));
    else if (sqlite3_column_type(statement, i) != SQLITE_NULL)
      printf("%s", (const char *)sqlite3_column_text(statement, i));
  }
  putchar('\n');
}

static void run_statement(sqlite3 *db, const char *sql) {
  for (sqlite3_stmt *statement = NULL; *sql; statement = NULL) {
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, &sql);
    if (code == SQLITE_OK && !statement) break;
    if (code == SQLITE_OK) {
      while ((code = sqlite3_step(statement)) == SQLITE_ROW) print_row(statement);
      sqlite3_finalize(statement);
    }
    if (code != SQLITE_OK && code != SQLITE_DONE) {
      printf("Error: %s\n", sqlite3_errmsg(db));
      break;
    }
  }
}

static int run_script(sqlite3 *db, const char *name) {
  FILE *file = fopen(name, "rb");
  if (!file) {
    printf("%s cannot be read\n", name);
    return 1;
  }
  static char line[1 << 16], sql[1 << 20];
  size_t size = 0;
  while (fgets(line, sizeof line, file)) {
    const size_t length = strcspn(line, "\r\n");
    if (size == 0 && line[0] == '.') {
      line[length] = 0;
      if (!strncmp(line, ".print", 6)) printf("%s\n", line[6] ? line + 7 : "");
      continue;
    }
    if (size == 0 && (length == 0 || !strncmp(line, "--", 2))) continue;
    if (size + strlen(line) >= sizeof sql) abort();
    strcpy(sql + size, line);
    size += strlen(line);
    if (sqlite3_complete(sql)) {
      run_statement(db, sql);
      size = 0;
    }
  }
  fclose(file);
  if (size) run_statement(db, sql);
  return 0;
}

int main(int argc, char **argv) {
  sqlite3 *db = NULL;
  char *message = NULL;
  if (argc < 4) return 2;
#ifdef _WIN32
  _setmode(_fileno(stdout), _O_BINARY);
#endif
  if (sqlite3_open(argv[2], &db) != SQLITE_OK || sqlite3_enable_load_extension(db, 1) != SQLITE_OK ||
      sqlite3_load_extension(db, argv[1], NULL, &message) != SQLITE_OK) {
    printf("%s is not loaded: %s\n", argv[1], message ? message : sqlite3_errmsg(db));
    return 1;
  }
  int failed = 0;
  for (int i = 3; i < argc && !failed; i++) failed = run_script(db, argv[i]);
  return failed | (sqlite3_close(db) != SQLITE_OK);
}
