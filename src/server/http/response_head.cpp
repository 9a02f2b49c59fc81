// Writing an answer's head. See response_head.hpp.
// Dates are written without the C library's names of days, which depend on the locale. Source: RFC 9110 section 5.6.7.
#include "server/http/response_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>

namespace minfer::server {
namespace {

struct Reason {
  int status;
  std::string_view text;
};

constexpr Reason kReasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
};

std::string_view reason(int status) {
  for (const Reason& row : kReasons) {
    if (row.status == status) return row.text;
  }
  return "Status";
}

std::string http_date(std::time_t now) {
  constexpr std::string_view kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t = {};
  gmtime_r(&now, &t);
  constexpr int kFirstYear = 1900;  // of std::tm
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday, kMonths[t.tm_mon],
                     t.tm_year + kFirstYear, t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace

std::string format_head(const ResponseHead& head, const Headers& headers, const Headers& common) {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nServer: minfer\r\n", head.status, reason(head.status),
                                 http_date(std::time(nullptr)));
  const auto add = [&text](std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(text), "{}: {}\r\n", name, value);
  };
  if (!head.content_type.empty()) add("Content-Type", head.content_type);
  if (head.content_length) add("Content-Length", fmt::to_string(*head.content_length));
  if (head.chunked) add("Transfer-Encoding", "chunked");
  add("Connection", head.keeps_alive ? "keep-alive" : "close");
  for (const auto& [name, value] : headers) add(name, value);
  for (const auto& header : common) {
    const bool is_replaced =
        std::any_of(headers.begin(), headers.end(), [&header](const auto& own) { return own.first == header.first; });
    if (!is_replaced) add(header.first, header.second);
  }
  return text += "\r\n";
}

}  // namespace minfer::server
