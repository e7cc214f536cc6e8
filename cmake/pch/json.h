// The same for folders that read JSON.
#include "common.h"

#include <nlohmann/json.hpp>
