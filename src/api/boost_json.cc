// Boost.JSON is compiled here, once and with our own flags and sanitizers; the headers alone do not define it.
#include <boost/json/src.hpp>
