/* replay.c: a main() that runs a fuzz target on stored inputs: the arguments are files, and directories of files. */
#include <dirent.h>
#include <sys/stat.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"

static unsigned long inputs;

static void run_file(const char *path) {
  FILE *file = fopen(path, "rb");
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  long size = ftell(file);
  CHECK(size >= 0 && fseek(file, 0, SEEK_SET) == 0);
  uint8_t *bytes = malloc(size > 0 ? (size_t)size : 1);
  CHECK(bytes && fread(bytes, 1, (size_t)size, file) == (size_t)size);
  fclose(file);
  LLVMFuzzerTestOneInput(bytes, (size_t)size);
  free(bytes);
  inputs++;
}

static void run_path(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) {
    perror(path);
    exit(1);
  }
  if (!S_ISDIR(status.st_mode)) {
    run_file(path);
    return;
  }
  DIR *directory = opendir(path);
  CHECK(directory);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char below[4096];
    if (entry->d_name[0] == '.') continue;
    CHECK(snprintf(below, sizeof below, "%s/%s", path, entry->d_name) < (int)sizeof below);
    run_path(below);
  }
  closedir(directory);
}

int main(int count, char **arguments) {
  LLVMFuzzerInitialize(&count, &arguments);
  for (int i = 1; i < count; i++) run_path(arguments[i]);
  printf("%lu inputs\n", inputs);
  return inputs == 0;
}

/* The targets' mutators call this function of libFuzzer. It is never called here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) { return size < most ? size : most; }
