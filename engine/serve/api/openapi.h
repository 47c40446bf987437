/* engine/serve/api/openapi.h — the description of the HTTP API. */
#ifndef CAIRN_SERVE_API_OPENAPI_H
#define CAIRN_SERVE_API_OPENAPI_H

#include "base/text/json.h"

/* OpenAPI 3.1, made from the table of routes and schemas.json. `x-role` is who may ask. */
json_t *api_openapi(void);

#endif
