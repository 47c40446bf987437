/* engine/serve/web/mhd.h — libmicrohttpd, loaded when a server is made: linking it would load
 * gnutls at every start of the program. */
#ifndef CAIRN_SERVE_WEB_MHD_H
#define CAIRN_SERVE_WEB_MHD_H

#include <microhttpd.h>
#include "base/err.h"

/* All functions that we call, without "MHD_". */
#define MHD_FUNCTIONS(X)                       \
	X(get_version)                         \
	X(start_daemon)                        \
	X(stop_daemon)                         \
	X(create_response_from_buffer)         \
	X(create_response_from_callback)       \
	X(create_response_from_fd_at_offset64) \
	X(add_response_header)                 \
	X(add_response_footer)                 \
	X(queue_response)                      \
	X(destroy_response)                    \
	X(lookup_connection_value)             \
	X(get_connection_values)               \
	X(get_connection_info)                 \
	X(suspend_connection)                  \
	X(resume_connection)

#define MHD_MEMBER(name) typeof(&MHD_##name) name;
struct mhd_api {
	MHD_FUNCTIONS(MHD_MEMBER)
};

/* Loads the library once for the process; ERR_UNSUPPORTED names the package. Never unloaded. The
 * loop's thread. */
int mhd_api_get(const struct mhd_api **ret, struct err *err);

#endif
