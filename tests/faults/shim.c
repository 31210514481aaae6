/* Makes one call into the system fail, once. Preloaded into a process; see shim.py.
 *
 * Only thread starts and calls that concern files below one folder count. `fault_arm` chooses the kind of call, which one of
 * them in order, and the error. `fault_count` says how many of a kind came since then.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { OPEN, WRITE, SYNC, LOCK, FLOCK, MAP, TRUNCATE, UNLINK, MKDIR, THREAD, KINDS };

static char folder[PATH_MAX];
static long counts[KINDS];
static int armed, chosen, error_number;
static long place;

void fault_arm(const char *below, int kind, long number, int error) {
  strncpy(folder, below, sizeof folder - 1);
  memset(counts, 0, sizeof counts);
  chosen = kind, place = number, error_number = error;
  armed = 1;
}

void fault_pause(int paused) { armed = !paused; }

long fault_count(int kind) { return counts[kind]; }

static int fails(enum kind kind) {
  long number = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_SEQ_CST);
  if ((int)kind != chosen || number != place) return 0;
  errno = error_number;
  return 1;
}

static int path_fails(enum kind kind, const char *path) {
  return armed && strncmp(path, folder, strlen(folder)) == 0 && fails(kind);
}

static int file_fails(enum kind kind, int file) {
  char link[64], path[PATH_MAX];
  if (!armed) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  int kept = errno;
  ssize_t length = readlink(link, path, sizeof path - 1);
  errno = kept;
  if (length < 0) return 0;
  path[length] = 0;
  return path_fails(kind, path);
}

#define REAL(name) ((__typeof__(&name))real(&real_##name, #name))
static void *real(void **kept, const char *name) { return *kept ? *kept : (*kept = dlsym(RTLD_NEXT, name)); }

#define OPENS(name)                                                  \
  static void *real_##name;                                          \
  int name(const char *path, int flags, ...) {                       \
    va_list rest;                                                    \
    va_start(rest, flags);                                           \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; \
    va_end(rest);                                                    \
    return path_fails(OPEN, path) ? -1 : REAL(name)(path, flags, mode); \
  }
OPENS(open)
OPENS(open64)

#define WRITES(name, offset)                                                     \
  static void *real_##name;                                                      \
  ssize_t name(int file, const void *data, size_t size, offset where) {          \
    return file_fails(WRITE, file) ? -1 : REAL(name)(file, data, size, where);   \
  }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

#define SYNCS(name)                                             \
  static void *real_##name;                                     \
  int name(int file) { return file_fails(SYNC, file) ? -1 : REAL(name)(file); }
SYNCS(fsync)
SYNCS(fdatasync)

#define LOCKS(name)                                                                               \
  static void *real_##name;                                                                       \
  int name(int file, int command, ...) {                                                          \
    va_list rest;                                                                                 \
    va_start(rest, command);                                                                      \
    void *argument = va_arg(rest, void *);                                                        \
    va_end(rest);                                                                                 \
    int is_lock = command == F_SETLK || command == F_SETLKW;                                      \
    return is_lock && file_fails(LOCK, file) ? -1 : REAL(name)(file, command, argument);          \
  }
LOCKS(fcntl)
LOCKS(fcntl64)

static void *real_flock;
int flock(int file, int operation) { return file_fails(FLOCK, file) ? -1 : REAL(flock)(file, operation); }

#define MAPS(name, offset)                                                                     \
  static void *real_##name;                                                                    \
  void *name(void *at, size_t size, int guard, int flags, int file, offset where) {            \
    int is_ours = file >= 0 && file_fails(MAP, file);                                          \
    return is_ours ? MAP_FAILED : REAL(name)(at, size, guard, flags, file, where);             \
  }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)

#define TRUNCATES(name, offset)                          \
  static void *real_##name;                              \
  int name(int file, offset size) { return file_fails(TRUNCATE, file) ? -1 : REAL(name)(file, size); }
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)

static void *real_unlink;
int unlink(const char *path) { return path_fails(UNLINK, path) ? -1 : REAL(unlink)(path); }

static void *real_mkdir;
int mkdir(const char *path, mode_t mode) { return path_fails(MKDIR, path) ? -1 : REAL(mkdir)(path, mode); }

static void *real_pthread_create;
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *given) {
  if (armed && fails(THREAD)) return error_number;
  return REAL(pthread_create)(thread, how, run, given);
}
