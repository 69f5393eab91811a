#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>

namespace osb::http {

// Gives the connections of a server their places, and decides which one goes when there are too many. Internal to the
// server and its sessions; one thread.
//
// A client is a stranger until it has shown who it is. An eighth of the places is not for strangers. If a stranger
// comes and no place is free, another stranger's connection goes that only waits for its client: in the order of Wait,
// and there the oldest of the address that has most. A stranger whose request is being served stays. Further clients
// get a place in a small reserve, for one request.
class ConnectionPlaces {
 public:
  struct Limits {
    std::size_t connections = 0;
    std::size_t half_sent_per_client = 0;  // connections of one address with a half-sent head; 0: any number
    std::size_t reserve = 0;               // places beyond `connections`
  };

  // Why a connection waits for its client. The first goes first.
  enum class Wait {
    HalfSent,  // the head of a request has begun
    Silent,    // no byte has come yet, or the client does not take its answer
    Idle,      // between two requests
  };

  static constexpr std::size_t kWaits = 3;
  class Place;
  struct Client {
    std::array<std::list<Place*>, kWaits> waiting;  // by Wait, the oldest first
    std::size_t places = 0;
    const std::string* name = nullptr;
  };

  // The place of one connection; at a fixed address from enter() to leave().
  class Place {
   public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    bool known() const { return kind_ == Kind::Known; }
    bool in_reserve() const { return kind_ == Kind::Reserve; }

   private:
    friend class ConnectionPlaces;
    enum class Kind { None, Stranger, Known, Reserve };
    Kind kind_ = Kind::None;
    Client* client_ = nullptr;  // from the first wait of a stranger on
    // Ends the connection. False: its client has just sent something, so it stays.
    std::function<bool()> end_;
    // Its element of a list: moved between lists, so that waiting costs no memory.
    std::list<Place*> own_{this};
    std::list<Place*>::iterator position_ = own_.begin();
    std::list<Place*>* waiting_ = nullptr;  // where it waits
  };

  explicit ConnectionPlaces(Limits limits) : limits_(limits) {}
  void set_limits(Limits limits) { limits_ = limits; }

  // A place for a new connection, which may cost another one its own. False: there is none, unless starting() is more
  // than zero: sessions that have not run yet may give one up.
  bool enter(Place& place);
  // The session of the connection has begun; `end` closes it.
  void begin(Place& place, std::function<bool()> end);
  // The client has shown who it is. A place in the reserve becomes an ordinary one if there is one.
  void recognize(Place& place);
  // The connection has ended, or is about to.
  void leave(Place& place);

  // The connection waits for its client, whose address is `peer`. Waiting on does not make it younger, unless it waits
  // for something else. Only strangers are listed.
  void wait(Place& place, Wait what, std::string_view peer);
  void work(Place& place);  // it waits no longer

  // Closes the connection that goes first. False: none can.
  bool make_room();
  // Half of the strangers' places are taken: unfinished requests have less time.
  bool pressed() const { return strangers_ * 2 >= strangers_most() && strangers_ > 1; }

  std::size_t strangers() const { return strangers_; }
  std::size_t known() const { return known_; }
  std::size_t starting() const { return starting_; }  // entered and not begun
  std::size_t ended() const { return ended_; }        // connections closed to make room, so far

 private:
  std::size_t strangers_most() const { return limits_.connections - limits_.connections / 8; }
  bool has_room() const { return strangers_ < strangers_most() && strangers_ + known_ < limits_.connections; }
  void move(Place& place, std::list<Place*>& to);
  bool end_oldest(std::list<Place*>& waiting);
  void forget_client(Place& place);

  Limits limits_;
  std::size_t strangers_ = 0, known_ = 0, reserve_ = 0, starting_ = 0, ended_ = 0;
  std::map<std::string, Client, std::less<>> clients_;  // with strangers' connections, by network
  std::list<Place*> reserve_waiting_;
};

// The part of an address that one client may have all of: an IPv4 address, the first 64 bits of an IPv6 address.
std::string client_of(std::string_view peer);

}  // namespace osb::http
