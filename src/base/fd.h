/* Files and descriptors: whole reads and writes, atomic small files. Blocking: start-up, the CLI
 * and worker threads only. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct buf;

int fd_write_all(int fd, const void *data, size_t len, struct error *err);
int fd_read_all(int fd, struct buf *ret, struct error *err);         /* up to ret->max_bytes */
int file_read(const char *path, struct buf *ret, struct error *err); /* up to ret->max_bytes */
/* Temp file beside it, then rename: a reader sees the old file or the new one. */
int file_write(const char *path, const void *data, size_t len, unsigned mode, struct error *err);
int dir_make(const char *path, unsigned mode, struct error *err); /* with parents; exists = fine */
int fd_set_nonblock(int fd, bool on);
