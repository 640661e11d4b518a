/* credentials_sources.h: the places that hold keys, for credentials.c alone. Each function looks into one place. It
 * returns TSR_OK with the keys; TSR_NOT_FOUND, with a short reason, if the place is not set up; or another code if it is
 * set up and fails. No message has a key. */
#ifndef TSR_CREDENTIALS_SOURCES_H
#define TSR_CREDENTIALS_SOURCES_H

#include "remote/credentials.h"

/* A text within a larger one. */
typedef struct tsr_text_part {
  const char *at;
  uint64_t size;
} tsr_text_part;

/* Copies keys into one block. Errors: TSR_DENIED if a text has characters that no key has. */
int tsr__credentials_make(tsr_memory *memory, tsr_text_part key_id, tsr_text_part secret, tsr_text_part token,
                          int64_t expires, tsr_credentials *credentials, tsr_error *error);

/* Keeps a region if it has only the characters of one; otherwise it counts as not known. */
void tsr__credentials_region(tsr_credentials *credentials, tsr_text_part region);

/* Returns the value of an environment variable, or NULL if it is missing or empty. */
const char *tsr__variable(const char *name);

/* Reads an ordinary file into an empty buffer, with a NUL byte behind it, which the size does not count. The caller
 * wipes the buffer. Errors: TSR_NOT_FOUND; TSR_TOOBIG for more than `most` bytes. */
int tsr__secret_file_read(const char *path, uint64_t most, tsr_buffer *buffer, tsr_error *error);

/* Wipes and frees a buffer. */
void tsr__secret_release(tsr_buffer *buffer);

int tsr__keys_from_environment(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error);
int tsr__keys_from_profile(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error);
int tsr__keys_from_web_identity(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error);
int tsr__keys_from_container(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error);
int tsr__keys_from_instance(tsr_provider *provider, tsr_credentials *credentials, tsr_error *error);

#endif
