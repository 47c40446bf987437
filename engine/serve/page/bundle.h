/* engine/serve/page/bundle.h — the built web interface, inside of the program. engine/bundle.cmake
 * writes the table. */
#ifndef CAIRN_SERVE_PAGE_BUNDLE_H
#define CAIRN_SERVE_PAGE_BUNDLE_H

#include <stddef.h>

struct bundle_file {
	const char *path; /* "/index.html"; NULL ends the table */
	const char *etag; /* with its quotes */
	const char *gz, *gz_end;
	size_t size; /* uncompressed */
};

extern const struct bundle_file bundle_files[]; /* empty: the interface wasn't built */
extern const char bundle_why[];                 /* then: the reason */

#endif
