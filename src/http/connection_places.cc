#include "http/connection_places.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <utility>

namespace osb::http {
namespace {

// Connections whose clients have just sent something stay; of those there are few at a time.
constexpr std::size_t kMaxTries = 16;

}  // namespace

std::string client_of(std::string_view peer) {
  std::string text(peer);
  in6_addr six{};
  if (!peer.contains(':') || ::inet_pton(AF_INET6, text.c_str(), &six) != 1) return text;
  if (IN6_IS_ADDR_V4MAPPED(&six)) return text.substr(text.rfind(':') + 1);
  std::memset(&six.s6_addr[8], 0, 8);
  char out[INET6_ADDRSTRLEN];
  return ::inet_ntop(AF_INET6, &six, out, sizeof out) != nullptr ? std::string(out) + "/64" : text;
}

bool ConnectionPlaces::enter(Place& place) {
  if (has_room() || (make_room() && has_room())) {
    place.kind_ = Place::Kind::Stranger;
    ++strangers_;
  } else if (starting_ == 0 && (reserve_ < limits_.reserve || end_oldest(reserve_waiting_))) {
    place.kind_ = Place::Kind::Reserve;
    ++reserve_;
  } else {
    return false;
  }
  ++starting_;
  return true;
}

void ConnectionPlaces::begin(Place& place, std::function<bool()> end) {
  if (place.kind_ == Place::Kind::None) return;
  --starting_;
  place.end_ = std::move(end);
}

void ConnectionPlaces::recognize(Place& place) {
  if (place.kind_ == Place::Kind::Stranger) {
    forget_client(place);
    --strangers_;
  } else if (place.kind_ == Place::Kind::Reserve && (strangers_ + known_ < limits_.connections || make_room())) {
    work(place);
    --reserve_;
  } else {
    return;
  }
  place.kind_ = Place::Kind::Known;
  ++known_;
}

void ConnectionPlaces::leave(Place& place) {
  forget_client(place);
  if (place.kind_ != Place::Kind::None && !place.end_) --starting_;
  switch (std::exchange(place.kind_, Place::Kind::None)) {
    case Place::Kind::Stranger:
      --strangers_;
      break;
    case Place::Kind::Known:
      --known_;
      break;
    case Place::Kind::Reserve:
      --reserve_;
      break;
    case Place::Kind::None:
      break;
  }
  place.end_ = nullptr;
}

void ConnectionPlaces::wait(Place& place, Wait what, std::string_view peer) {
  if (place.kind_ == Place::Kind::Reserve) return move(place, reserve_waiting_);
  if (place.kind_ != Place::Kind::Stranger) return;
  if (place.client_ == nullptr) {
    const auto client = clients_.try_emplace(client_of(peer)).first;
    place.client_ = &client->second;
    place.client_->name = &client->first;
    ++place.client_->places;
  }
  std::list<Place*>& waiting = place.client_->waiting[static_cast<std::size_t>(what)];
  move(place, waiting);
  const std::size_t most = limits_.half_sent_per_client;
  if (what == Wait::HalfSent && most > 0 && waiting.size() > most) end_oldest(waiting);
}

void ConnectionPlaces::work(Place& place) {
  if (place.waiting_ == nullptr) return;
  move(place, place.own_);
  place.waiting_ = nullptr;
}

// To the end of the list, unless it is there already.
void ConnectionPlaces::move(Place& place, std::list<Place*>& to) {
  if (place.waiting_ == &to) return;
  to.splice(to.end(), place.waiting_ != nullptr ? *place.waiting_ : place.own_, place.position_);
  place.waiting_ = &to;
}

void ConnectionPlaces::forget_client(Place& place) {
  work(place);
  Client* client = std::exchange(place.client_, nullptr);
  if (client != nullptr && --client->places == 0) clients_.erase(clients_.find(*client->name));
}

bool ConnectionPlaces::make_room() {
  for (std::size_t wait = 0; wait < kWaits; ++wait) {
    std::list<Place*>* most = nullptr;
    for (auto& [address, client] : clients_) {
      if (most == nullptr || client.waiting[wait].size() > most->size()) most = &client.waiting[wait];
    }
    if (most != nullptr && end_oldest(*most)) return true;
  }
  return false;
}

bool ConnectionPlaces::end_oldest(std::list<Place*>& waiting) {
  std::size_t tries = 0;
  for (Place* place : waiting) {
    if (++tries > kMaxTries) break;
    if (!place->end_()) continue;
    leave(*place);  // its place is free at once; the session ends later
    ++ended_;
    return true;
  }
  return false;
}

}  // namespace osb::http
