/* engine/base/embedded.h — source files that are built into the program. cairn_embed_folder() in
 * CMakeLists.txt makes a table of a folder's files; engine/embed.cmake writes it. */
#ifndef CAIRN_BASE_EMBEDDED_H
#define CAIRN_BASE_EMBEDDED_H

#include <stddef.h>

struct embedded_file {
	const char *path; /* below the folder; NULL ends the table */
	const char *bytes;
	size_t size; /* without the NUL that follows */
};

#endif
