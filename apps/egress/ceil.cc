// The only function of libm that this program needs: fmt rounds with it. The library is nearly a megabyte, a tenth of
// the sidecar's image.
extern "C" double ceil(double number) noexcept {
  constexpr double kWhole = 4503599627370496.0;  // 2^52: from here on there are no fractions
  if (!(number > -kWhole && number < kWhole)) return number;
  const auto whole = static_cast<double>(static_cast<long long>(number));
  return whole < number ? whole + 1 : whole;
}
