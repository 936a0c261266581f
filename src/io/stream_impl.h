/* What the kinds of stream share with stream.c and stream_file.c, and nobody else sees. */
#pragma once
#include "io/stream.h"

/* A kind says: what I hold is low again. Ends a "full" and tells the owner, or lets the file that
 * waits go on. May free the stream, whose memory stays until later. */
void stream_has_room(struct stream *s);

/* ---- stream_file.c ---- */
int stream_files_write(struct stream *s, struct chunk *c, struct error *err); /* behind a file */
void stream_files_go(struct stream *s); /* the next slice, if nothing stands before it */
/* The stream ends: what waits is dropped. A slice that is under way still uses fd (the stream's own
 * descriptor, or -1): then it is shut down here, closed later, and -1 is returned. Else fd. */
int stream_files_drop(struct stream *s, int fd);
