#pragma once

namespace osb::execd {

// Lets go of the pages of this program's code and constants that were mapped so far. Starting touches much that is
// never needed again, an idle daemon needs almost nothing, and the kernel maps sixteen pages for each one that is
// touched. Pages that are needed come back from the page cache with the next use.
void forget_program_pages();

}  // namespace osb::execd
