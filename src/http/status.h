/* The words of HTTP status numbers. */
#pragma once

const char *http_status_text(int status); /* "Not Found"; "Unknown" for a number without words */
