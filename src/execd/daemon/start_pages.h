#pragma once

namespace osb::execd {

// Lets go of the pages of this program's code and constants that were mapped so far. Starting touches much that is
// never needed again, and the kernel maps sixteen pages for each one that is touched; what is needed comes back from
// the page cache with the next use. An idle daemon gets a fifth smaller by it, and there is one per sandbox.
void forget_start_pages();

}  // namespace osb::execd
