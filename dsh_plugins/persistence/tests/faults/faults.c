/* Preloaded into a process: makes calls that write to database files fail, from the Nth on.
   Counts calls for descriptors whose path holds ".db"; dsh_fault() sets what happens to them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static long position = 0, calls = 0, how_many = 0;
static int error_number = 0, is_short = 0;

void dsh_fault(long at, long lasts, int number, int cuts_short) {
  calls = 0;
  position = at;
  how_many = lasts;
  error_number = number;
  is_short = cuts_short;
}

long dsh_calls(void) { return calls; }

static int is_hit(int file) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  if (!strstr(path, ".db")) return 0;
  calls++;
  return position > 0 && calls >= position && calls < position + how_many;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_OR(call) \
  if (is_hit(file)) { errno = error_number; return -1; } \
  return call
#define WRITE_OR_FAIL(call, cut) \
  if (is_hit(file)) { \
    if (is_short && size > 1) { size /= 2; return cut; } \
    errno = error_number; return -1; \
  } \
  return call

ssize_t write(int file, const void *data, size_t size) {
  WRITE_OR_FAIL(REAL(write)(file, data, size), REAL(write)(file, data, size));
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
  WRITE_OR_FAIL(REAL(pwrite)(file, data, size, at), REAL(pwrite)(file, data, size, at));
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
  WRITE_OR_FAIL(REAL(pwrite64)(file, data, size, at), REAL(pwrite64)(file, data, size, at));
}
int fsync(int file) { FAIL_OR(REAL(fsync)(file)); }
int fdatasync(int file) { FAIL_OR(REAL(fdatasync)(file)); }
int ftruncate(int file, off_t size) { FAIL_OR(REAL(ftruncate)(file, size)); }
int ftruncate64(int file, off64_t size) { FAIL_OR(REAL(ftruncate64)(file, size)); }
